// A function of somebody's own, for each element.

fn unit(at: i32) {
    put(at, of_place(at));
}
