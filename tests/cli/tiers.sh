# A slower tier, with ranks' files as they are or merged, is a directory as any
# other.
for i in 1 2 3; do make_ckpt fast $i ${i}00; done
make_drained fast same 0
diff -r fast/step-00000200 same/step-00000200 && echo "the same bytes"
make_drained fast slow 1
ls slow slow/step-00000300
cat slow/latest
run lull ls slow
run lull verify slow --all
run lull diff fast/step-00000300 slow/step-00000300
strict slow/step-00000300/*.safetensors >/dev/null && echo "plain safetensors"
lull show fast/step-00000200 >a
lull show slow/step-00000200 >b
diff a b
# Again: nothing is left to do. What goes is drained no more.
rm -r slow/step-00000100
lull prune fast --keep-last 1 2>&1 | sed "s|$PWD/||"
ls fast
run lull prune fast --keep-last 1 --undrained
make_drained fast slow 1
run lull ls slow
# Damage is named, and not carried over.
flip slow/step-00000300/rank-00000.safetensors 4100
run lull verify slow
flip fast/step-00000300/rank-00001.safetensors 4100
make_drained fast other 1
run lull ls other
