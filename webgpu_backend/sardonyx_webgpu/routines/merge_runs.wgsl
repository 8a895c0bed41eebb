// Keys [lines, N] in runs, $RUNS of which become one: a thread searches the other runs for the keys before its own.

#include "less.wgsl"

// How many keys of a run come before one; equal ones do where the run is an earlier one.
fn before(at: i32, start: i32, key: $KEY, earlier: bool) -> i32 {
    var low = min(start, $N);
    var high = min(start + $RUN, $N);
    let first = low;
    while (low < high) {
        let middle = (low + high) >> 1u;
        let other = load_a(at + middle);
        if (select(less(other, key), !less(key, other), earlier)) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low - first;
}

fn unit(line: i32, i: i32) {
    let at = line * $N;
    let key = load_a(at + i);
    let run = i / $RUN;
    let first = run - run % $RUNS;
    var place = first * $RUN + i % $RUN;
    for (var other = first; other < first + $RUNS; other++) {
        if (other != run) {
            place += before(at, other * $RUN, key, other < run);
        }
    }
    put(at + place, key);
    put_1(at + place, load_b(at + i));
}
