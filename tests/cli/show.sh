make_ckpt c 1 100
make_ckpt c 2 300
run lull show c
run lull show c/100
run lull show c/step-00000100 --json
lull show c --json | jq -e '.tensors[1].shards[1].offset == [128, 0]' \
    >/dev/null || echo "not what it should be"
cd c
run lull show step-00000300 --json >/dev/null
cd ..
run lull show c --step 200
run lull show c/200
run lull show missing
mkdir empty
run lull show empty

# The newest is damaged: the one before is shown, and that is said.
flip c/step-00000300/rank-00001.json 100
run lull show c --json >/dev/null
run lull show c/300
# Of two nodes' directories one.
lull show "$TESTS/golden/checkpoint/place-0" | sed -n '/^elsewhere/,/^$/p'
