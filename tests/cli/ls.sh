run lull ls missing
mkdir empty
run lull ls empty
run lull ls --json empty
make_ckpt c 1 100
make_ckpt c 2 300
make_ckpt c 3 110 1 # resumed from step 100
run lull ls c
run lull ls c --json
lull ls c --json | jq -e 'length == 3' >/dev/null || echo "not JSON"

# Damage is told, each in its own way.
truncate -s 5000 c/step-00000110/rank-00001.safetensors
flip c/step-00000300/manifest.json 40
rm c/step-00000100/rank-00000.json
mkdir c/step-00000400 c/.step-00000500.partial-r-1
run lull ls c
run lull ls --json c
