// An element of x [slots, $WIDTH] with its updates.

fn unit(slot: i32, k: i32) {
    let at = slot * $WIDTH + k;
    let end = load_d(slot + 1);
    var x = load_a(at);
    for (var next = load_d(slot); next < end; next += $STEPS) {
        #for j in STEPS
        if (next + $j < end) {
            let update = load_c(next + $j) * $WIDTH + k;
            x = $COMBINED;
        }
        #end
    }
    put(at, x);
}
