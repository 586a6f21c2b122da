for i in 1 2 3 4 5; do make_ckpt c $i ${i}00; done
run lull prune c --keep-last 2 --keep-every 200
run lull ls c --json
run lull prune c --keep-last 1 --json
ls c
run lull prune c --keep-last 1
run lull prune missing --keep-last 1
run lull prune c/step-00000500 --keep-last 1
ls -A c/step-00000500
# What a reader holds stays.
make_ckpt d 1 100
make_ckpt d 2 200
(
    flock -s 9
    run lull prune d --keep-last 1
) 9<d/step-00000100/manifest.json
ls d
run lull prune d --keep-last 1
ls d
