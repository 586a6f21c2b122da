python3 - <<'END'
import math, struct
values = [math.sin(i / 50) * 0.1 for i in range(10007)]
open("a.f32", "wb").write(struct.pack(f"<{len(values)}f", *values))
values[5000] = float("nan")
open("nan.f32", "wb").write(struct.pack(f"<{len(values)}f", *values))
END
# Lossless there and back.
run lull codec encode --codec mpc --dtype f32 a.f32 a.lull
run lull codec decode a.lull b.f32
run cmp a.f32 b.f32
# Several frames in a row are one array.
cat a.lull a.lull >two.lull
cat a.f32 a.f32 >two.f32
run lull codec decode two.lull b.f32
run cmp two.f32 b.f32
# Empty.
: >none.f32
run lull codec encode --codec zfp:8 --dtype f32 none.f32 none.lull
run lull codec decode none.lull b.f32
run cmp none.f32 b.f32
# NaN escapes in a frame, and not without.
run lull codec encode --codec zfp:8 --dtype f32 nan.f32 nan.lull
run lull codec decode nan.lull b.f32
run cmp nan.f32 b.f32
run lull codec encode --codec zfp:8 --dtype f32 --bare nan.f32 nan.zfp
run ls nan.zfp
# As the zfp program writes and reads, where there is one.
run lull codec encode --codec zfp:8 --dtype f32 --bare a.f32 a.zfp
run lull codec decode --codec zfp:8 --dtype f32 --count 10007 --bare --truncate a.zfp b.f32
if command -v zfp >/dev/null; then
    zfp -q -i a.f32 -f -1 10007 -r 8 -z a.by-zfp
    zfp -q -z a.zfp -f -1 10007 -r 8 -o b.by-zfp
else
    cp a.zfp a.by-zfp
    cp b.f32 b.by-zfp
fi
run cmp a.zfp a.by-zfp
run cmp b.f32 b.by-zfp
# As MPC itself wrote it.
cp "$TESTS"/golden/mpc/normal-n1025-d3.f64 m.f64
cp "$TESTS"/golden/mpc/normal-n1025-d3.f64.mpc m.mpc
run lull codec decode --codec mpc:3 --dtype f64 --count 1025 --bare m.mpc m.back
run cmp m.back m.f64
run lull codec encode --codec mpc:3 --dtype f64 --bare m.f64 m.by-lull
run cmp m.by-lull m.mpc
run lull codec decode --codec mpc:3 --dtype f64 --bare m.mpc m.back
run lull codec decode --codec mpc:2 --dtype f64 --count 1025 --bare m.mpc m.back
run lull codec decode --codec mpc:3 --dtype f32 --count 1025 --bare m.mpc m.back
rm m.*
# A tensor of a safetensors file.
make_ckpt ck 1 100
lull export ck -o model
name=$(lull show ck --json | python3 -c 'import json,sys
print([t["name"] for t in json.load(sys.stdin)["tensors"]
       if t["dtype"] == "F32"][0])')
run lull codec encode --codec expo --tensor "$name" model/model.safetensors t.lull
run lull codec decode t.lull t.f32
run lull codec encode --codec expo --tensor nosuch model/model.safetensors t.lull
# Comparing: figures vary, their names and codecs do not.
lull codec compare --dtype f32 a.f32 nan.f32 | awk 'NF==8{print $1, $4}' | sort -u | sed 's/ .*//' | uniq
lull codec compare --codec zfp:8,mpc --json --dtype f32 a.f32 >out.json
python3 - <<'END'
import json
for row in json.load(open("out.json")):
    print(row["class"], row["dtype"], row["codec"], row["bytes"],
          row["coded_bytes"], row["rel_l2"] < 0.01, sorted(row))
END
run lull codec compare --json --codec raw model ck | python3 -c 'import json,sys
text = sys.stdin.read().split("\n", 1)[1].rsplit("[exit", 1)[0]
print(all(row["ratio"] <= 1 for row in json.loads(text)))'
# What is wrong is named.
run lull codec decode a.f32 b.f32
head -c 1000 a.lull >cut.lull
run lull codec decode cut.lull b.f32
head -c 10 a.lull >cut.lull
run lull codec decode cut.lull b.f32
cp a.lull bad.lull
flip bad.lull 5000
run lull codec decode bad.lull b.f32
run lull codec decode --bare --codec zfp:8 --dtype f32 --count 10008 a.zfp b.f32
run lull codec decode --bare --codec zfp:8 --dtype f32 --count 10009 a.zfp b.f32
run lull codec encode --codec zfp:99 --dtype f32 a.f32 c
run lull codec encode --codec nosuch --dtype f32 a.f32 c
run lull codec encode --codec zfp:8 --dtype i32 a.f32 c
run lull codec encode --codec zfp:8 a.f32 c
run lull codec encode --codec zfp:8 --dtype f64 a.f32 c
run lull codec encode --codec mpc --dtype f32 missing c
run lull codec compare --codec nosuch --dtype f32 a.f32
run lull codec compare --dtype f33 a.f32
run lull codec frob a b
run lull codec encode a
run ls c
# What is there is not harmed: the file that is read, by whatever name, a file
# of the user's beside OUT, a device.
run lull codec encode --codec bf16 --dtype f32 a.f32 a.f32
ln a.f32 link.f32
run lull codec encode --codec bf16 --dtype f32 a.f32 ./link.f32
run lull codec decode a.lull a.lull
cp a.lull out.tmp
run lull codec decode out.tmp out
run cmp a.lull out.tmp
mkdir folder
run lull codec decode a.lull folder
mkfifo pipe
cat pipe >piped &
run lull codec decode a.lull pipe
wait
run test -p pipe
run cmp piped a.f32
run ls
