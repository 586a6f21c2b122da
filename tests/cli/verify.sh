make_ckpt c 1 100
make_ckpt c 2 200
make_ckpt c 3 300
run lull verify c
run lull verify c --step 100
run lull verify c/200 --json
run lull verify --all c

# A bit in a tensor: the cheap checks do not see it, verify does.
flip c/step-00000300/rank-00001.safetensors 4200
run lull verify c
run lull verify c --json
# A bit in a header, a short file, a byte too much, a missing file.
flip c/step-00000200/rank-00000.safetensors 20
run lull verify c/200
run lull verify --all c
run lull verify --all --json c
make_ckpt d 1 100
truncate -s 6000 d/step-00000100/rank-00000.safetensors
run lull verify d/100
make_ckpt e 1 100
echo >>e/step-00000100/rank-00000.safetensors
run lull verify e/100
rm e/step-00000100/rank-00000.safetensors
run lull verify e/100
make_ckpt f 1 100
rm f/step-00000100/manifest.json
run lull verify f/100
# None is whole.
run lull verify f
mkdir empty
run lull verify empty --all
run lull verify missing
# The newest is passed over: that is damage, though the older one is whole.
make_ckpt g 1 100
make_ckpt g 2 200
rm g/step-00000200/rank-00000.json
run lull verify g
