make_ckpt c 1 100
make_ckpt c 2 200
run lull export c -o model
ls model
run strict model
cat model/config.json model/README.md
run lull diff c/200 model --common
python3 - <<'END'
import json
vocab = json.load(open("model/tokenizer.json"))["model"]["vocab"]
assert sorted(vocab.values()) == list(range(256))
assert vocab["A"] == 65 and vocab["\u0120"] == 32 and vocab["\xff"] == 255
print("vocabulary of", len(vocab))
END

# In several files, and with the optimizer.
run lull export c/100 -o sharded --shard 4kB
ls sharded
run strict sharded
run lull diff sharded c/100 --common
run lull export c/100 -o all --all
run strict all
run lull diff all c/100

# Never over something; nothing is left of what fails.
run lull export c -o model
mkdir empty
run lull export c -o empty
run lull export c -o no/where
run lull export c --step 5 -o new
flip c/step-00000200/rank-00001.safetensors 4100
run lull export c -o new
run lull export c -o new --shard 12parsecs
ls
