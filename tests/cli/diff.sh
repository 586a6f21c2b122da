make_ckpt a 1 100
make_ckpt a 2 200
make_ckpt b 1 100
run lull diff a/100 b
run lull diff a/100 b --json
run lull diff a a --step-a 100 --step-b 200
run lull diff a b --json
lull export b -o model
run lull diff b model
run lull diff model/model.safetensors model
run lull diff model b --json
# Shapes, dtypes, and dtypes without numbers.
python3 - <<'END'
import json, struct
def write(name, tensors):
    at, header, data = 0, {}, b""
    for tensor, (dtype, shape, values) in tensors.items():
        header[tensor] = {"dtype": dtype, "shape": shape,
                          "data_offsets": [at, at + len(values)]}
        at += len(values)
        data += values
    text = json.dumps(header).encode()
    open(name, "wb").write(struct.pack("<Q", len(text)) + text + data)
f = lambda *v: struct.pack(f"<{len(v)}f", *v)
write("x.safetensors", {"shape": ("U8", [4], b"abcd"),
                        "dtype": ("U8", [4], b"abcd"),
                        "f8": ("F8_E5M2", [4], b"abcd"),
                        "half": ("F16", [2], struct.pack("<2e", 1, 2)),
                        "nan": ("F32", [2], f(1, float("nan"))),
                        "brain": ("BF16", [1], b"\x80\x3f"),
                        "zero": ("F32", [1], f(0)),
                        "none": ("F32", [0], b"")})
write("y.safetensors", {"shape": ("U8", [2, 2], b"abcd"),
                        "dtype": ("I8", [4], b"abcd"),
                        "f8": ("F8_E5M2", [4], b"abce"),
                        "half": ("F16", [2], struct.pack("<2e", 1, 3)),
                        "nan": ("F32", [2], f(1, 2)),
                        "brain": ("BF16", [1], b"\x00\x40"),
                        "zero": ("F32", [1], f(1)),
                        "none": ("F32", [0], b"")})
END
run lull diff x.safetensors y.safetensors
run lull diff x.safetensors x.safetensors
run lull diff x.safetensors y.safetensors --json
run lull diff x.safetensors missing.safetensors
run lull diff x.safetensors model --common
# What is damaged is passed over.
flip a/step-00000200/rank-00001.safetensors 4200
run lull diff a a --step-a 100 --step-b 200
run lull diff a/200 b --json
truncate -s -1 x.safetensors
run lull diff x.safetensors y.safetensors
