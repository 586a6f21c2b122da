# Read before each case (BASH_ENV): run COMMAND... shows it and its status.
run() {
    echo "\$ $*"
    echo "\$ $*" >&2
    "$@"
    echo "[exit $?]"
}
# flip FILE OFFSET: turns one byte over.
flip() {
    python3 - "$1" "$2" <<'END'
import sys
with open(sys.argv[1], "r+b") as file:
    file.seek(int(sys.argv[2]))
    byte = file.read(1)[0]
    file.seek(-1, 1)
    file.write(bytes([byte ^ 0x55]))
END
}
strict() {
    python3 "$TESTS/support/strict_safetensors.py" "$@"
}
