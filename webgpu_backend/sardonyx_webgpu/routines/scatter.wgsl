// An element of x [slots, $WIDTH], or four neighbours, with its updates.

fn unit(slot: i32, k: i32) {
    #if WHOLE
    let at = ((slot * $WIDTH) >> 2u) + k;
    var x = load4_a(at);
    #else
    let at = slot * $WIDTH + k;
    var x = load_a(at);
    #end
    let end = load_d(slot + 1);
    for (var next = load_d(slot); next < end; next += $STEPS) {
        #for j in STEPS
        if (next + $j < end) {
            #if WHOLE
            let y = load4_b(((load_c(next + $j) * $WIDTH) >> 2u) + k);
            #else
            let y = load_b(load_c(next + $j) * $WIDTH + k);
            #end
            x = $TYPE($COMBINED);
        }
        #end
    }
    #if WHOLE
    put_row(4 * at, 4, of_column(4 * k), x);
    #else
    put(at, x);
    #end
}
