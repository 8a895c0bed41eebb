// An element of x [slots, $WIDTH] with its updates, which are in the order of their slots.

// The first update of this slot or a later one.
fn first(slot: u32) -> i32 {
    var low = 0;
    var high = $COUNT;
    while (low < high) {
        let middle = (low + high) >> 1u;
        if (load_c(middle) < slot) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

fn unit(slot: i32, k: i32) {
    let at = slot * $WIDTH + k;
    var x = load_a(at);
    #if LAST
    let last = first(u32(slot) + 1u) - 1;
    if (last >= 0) {
        if (load_c(last) == u32(slot)) {
            x = load_b(load_d(last) * $WIDTH + k);
        }
    }
    #else
    var next = first(u32(slot));
    loop {
        #for j in STEPS
        if (next >= $COUNT) { break; }
        if (load_c(next) != u32(slot)) { break; }
        {
            let y = load_b(load_d(next) * $WIDTH + k);
            x = $COMBINED;
        }
        next++;
        #end
    }
    #end
    put(at, x);
}
