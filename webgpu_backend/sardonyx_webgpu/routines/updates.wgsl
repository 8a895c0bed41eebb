// Where updates of a slot are among those that are in the order of their slots.

// The first update of this slot or a later one.
fn first(slot: u32) -> i32 {
    var low = 0;
    var high = $COUNT;
    while (low < high) {
        let middle = (low + high) >> 1u;
        if (load_a(middle) < slot) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

fn unit(slot: i32) {
    #if LAST
    let place = first(u32(slot) + 1u) - 1;
    var number = -1;
    if (place >= 0) {
        if (load_a(place) == u32(slot)) {
            number = load_b(place);
        }
    }
    put(slot, number);
    #else
    put(slot, first(u32(slot)));
    #end
}
