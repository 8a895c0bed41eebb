// Keys [lines, N] to the first $KEEP in order of groups of $GROUP: a thread has $OWN neighbours, and counts the keys of the
// group before each of them. Behind the last key are largest ones.

#include "less.wgsl"

fn unit(line: i32, block: i32) {
    let first = block * $OWN;
    let group = first / $GROUP;
    let start = group * $GROUP;
    let end = min(start + $GROUP, $N);
    let at = line * $N;
    #for r in OWN
    let i$r = first + $r;
    let key$r = select(load_a(at + min(i$r, $N - 1)), ~$KEY(), i$r >= $N);
    var place$r = max(0, first - end);
    #end
    for (var j = start; j < min(first, end); j++) {
        let other = load_a(at + j);
        #for r in OWN
        place$r += select(1, 0, less(key$r, other));
        #end
    }
    #for r in OWN
    #for q in r
    let sinks$q_$r = less(key$r, key$q);
    place$q += select(0, 1, sinks$q_$r);
    place$r += select(1, 0, sinks$q_$r);
    #end
    #end
    for (var j = first + $OWN; j < end; j++) {
        let other = load_a(at + j);
        #for r in OWN
        place$r += select(0, 1, less(other, key$r));
        #end
    }
    #for r in OWN
    #if ALL
    if (i$r < $N) {
        let goal = line * $ROOM + start + place$r;
    #else
    if (place$r < $KEEP) {
        let goal = line * $ROOM + group * $KEEP + place$r;
    #end
        put(goal, key$r);
        #if CHOSEN
        put_1(goal, select(load_b(at + min(i$r, $N - 1)), 0, i$r >= $N));
        #else
        put_1(goal, select(i$r, 0, i$r >= $N));
        #end
    }
    #end
}
