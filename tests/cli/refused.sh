# What is not there, not what it should be, not possible or makes no sense is
# told in one line that names it, and nothing is left behind.
make_ckpt c 1 100
make_ckpt c 2 200
echo hello >notes
cp notes bad.safetensors
head -c 400 /dev/zero >a.f32
lull codec encode --codec expo --dtype f32 a.f32 a.lull
ls -A >before

# Empty arguments, as of a shell's variable that is not set.
run lull ''
run lull help ''
run lull ls ''
run lull diff c ''
run lull export c -o ''
run lull show c --step=
# Not a checkpoint.
for command in ls show verify; do
    run lull $command missing
    run lull $command notes
done
run lull ls c/step-00000100
run lull show c/step-00000100/manifest.json
run lull show c/300
run lull export notes -o new
run lull diff c notes
run lull diff notes c
run lull diff bad.safetensors c
run lull diff none.safetensors c
run lull prune notes --keep-last 1
run lull bench notes
run lull codec compare notes
run lull codec compare --dtype f32 c
run lull codec encode --codec expo --dtype f32 c new
run lull codec encode --codec expo --tensor x notes new
run lull codec decode notes new
# Options that contradict each other, or would be ignored.
run lull codec decode --codec expo a.lull new
run lull codec decode --dtype f32 a.lull new
run lull codec decode --count 3 a.lull new
run lull codec decode --no-checksum a.lull new
run lull codec decode --tensor x a.lull new
run lull codec decode --bare --codec expo --dtype f32 a.lull new
run lull codec encode --codec expo --dtype f32 --count 3 a.f32 new
run lull codec encode --codec expo --dtype f32 --truncate a.f32 new
run lull codec encode --codec expo --dtype f32 --force a.f32 new
run lull codec encode --codec expo --dtype f32 --bare --no-checksum a.f32 new
run lull codec encode --codec expo --dtype f32 --json a.f32 new
run lull codec encode --codec expo --dtype f32 --tensor x a.f32 new
run lull codec encode --codec expo a.f32 new
run lull codec encode --dtype f32 a.f32 new
run lull codec compare --bare --dtype f32 a.f32
run lull export c -o new --shard 0
run lull export c -o new --shard -1
run lull export c -o
run lull prune c --keep-last -1
run lull prune c --keep-last 5000000000
run lull bench . --size 1
run lull info x y
# Places that cannot be written.
run lull export c -o /proc/new
run lull export c -o no/where
run lull codec encode --codec expo --dtype f32 a.f32 no/where
run lull codec encode --codec expo --dtype f32 a.f32 /dev/full
run lull bench /proc
# A full disk behind stdout, for each command that writes there.
full() {
    lull "$@" >/dev/full 2>full.err
    echo "lull $*: [exit $?] $(cat full.err)"
    rm full.err
}
full ls c
full ls c --json
full show c
full show c --json
full verify c
full diff c c
full info
full help
full help ls
full --version
full codec compare c --codec raw
full prune c --keep-last 5
# A reader that went away ends lull as it ends others, without a word.
mkfifo pipe
exec 3<>pipe 4>pipe 3<&-
rm pipe
for command in 'ls c' 'show c' 'info' 'verify c' 'help'; do
    (
        trap - PIPE
        lull $command >&4
        echo "lull $command: [exit $?]" >&2
    )
done
ls -A | diff before - && echo "nothing left behind"
