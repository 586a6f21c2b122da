# Figures vary: what is looked at is that there are some, and what is left.
mkdir disk
lull bench disk --size 2MiB --json |
    jq -e '.bytes == 2097152 and .durable_s > 0 and .load_s > 0 and
           .bytes_saved == 0' >/dev/null || echo "not what it should be"
lull bench disk --size 2MiB --codec expo --encode-threads 2 --json |
    jq -e '.bytes_saved > 0' >/dev/null || echo "nothing saved"
lull bench disk --size 1M >out || echo "failed"
head -1 out
grep -c GB/s out
ls -A disk
run lull bench missing
run lull bench disk --size 5
run lull bench disk --size 8m
run lull bench disk --encode-threads 17
run lull bench disk --codec weights=nope
ls -A disk
