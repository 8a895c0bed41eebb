// The places of the elements that are not zero: a thread goes through a block of $BLOCK.

fn unit(block: i32) {
    if ($BLOCKS == 0) {
        put(0, vec2<u32>());
        return;
    }
    let count = load_b($BLOCKS - 1);
    if (block == 0) {
        put(0, vec2<u32>(u32(count), 0u));
    }
    var found = 0;
    if (block > 0) {
        found = load_b(block - 1);
    }
    let end = min((block + 1) * $BLOCK, $N);
    for (var i = block * $BLOCK; i < end; i++) {
        let x = load_a(i);
        if ($DIFFERS) {
            var rest = i;
            $PUT
            found++;
        }
    }
}
