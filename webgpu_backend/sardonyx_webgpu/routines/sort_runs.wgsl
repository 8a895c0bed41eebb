// Keys [lines, N] to the first $KEEP in order of groups of $GROUP: a thread counts the keys of its group before its own.

#include "less.wgsl"

fn unit(line: i32, i: i32) {
    let group = i / $GROUP;
    let start = group * $GROUP;
    let end = min(start + $GROUP, $N);
    let at = line * $N;
    var place = i - start;
    var key = ~$KEY();
    var source = 0;
    if (i < $N) {
        key = load_a(at + i);
        #if CHOSEN
        source = load_b(at + i);
        #else
        source = i;
        #end
        place = 0;
        for (var j = start; j < i; j++) {
            place += select(1, 0, less(key, load_a(at + j)));
        }
        for (var j = i + 1; j < end; j++) {
            place += select(0, 1, less(load_a(at + j), key));
        }
    }
    #if ALL
    let goal = line * $ROOM + start + place;
    put(goal, key);
    put_1(goal, source);
    #else
    if (place < $KEEP) {
        let goal = line * $ROOM + group * $KEEP + place;
        put(goal, key);
        put_1(goal, source);
    }
    #end
}
