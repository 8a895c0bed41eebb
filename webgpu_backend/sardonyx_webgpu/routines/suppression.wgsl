// A workgroup takes the candidates of a class in blocks, best ones first: each thread compares one with the boxes that
// were chosen, then with those before it in the block; the first thread decides which of the block are chosen.

var<workgroup> block_sides: array<vec4f, $THREADS>;
var<workgroup> rivals: array<vec2<u32>, $THREADS>;
var<workgroup> chosen: i32;
var<workgroup> done: u32;
var<private> overlap: f32;

fn area(x: vec4f) -> f32 {
    return (x.z - x.x) * (x.w - x.y);
}

fn drives_out(x: vec4f, y: vec4f) -> bool {
    let height = max(min(x.z, y.z) - max(x.x, y.x), 0.0);
    let width = max(min(x.w, y.w) - max(x.y, y.y), 0.0);
    let inside = height * width;
    let both = area(x) + area(y) - inside;
    return select(false, inside / both > overlap, both > 0.0);
}

fn sides(image: i32, box: i32) -> vec4f {
    let at = image * 4 * $BOXES + box;
    return vec4f(load_a(at), load_a(at + $BOXES), load_a(at + 2 * $BOXES), load_a(at + 3 * $BOXES));
}

// A bit for a place in the block.
fn bit(place: i32) -> vec2<u32> {
    let mask = 1u << (u32(place) & 31u);
    return select(vec2<u32>(mask, 0u), vec2<u32>(0u, mask), place >= 32);
}

fn limit() -> i32 {
    let most = load_d(0);
    if (most.y >= 0x80000000u) { return 0; }
    return select(i32(min(most.x, u32($ROOM))), $ROOM, most.y > 0u);
}

fn unit(image: i32, kind: i32, thread: i32) {
    let line = image * $CLASSES + kind;
    let first = line * $BOXES;
    let result = line * $ROOM;
    overlap = load_e(0);
    if (thread == 0) {  // some drivers leave to a workgroup what the one before had
        chosen = 0;
        done = select(0u, 1u, limit() == 0);
    }
    for (var start = 0; start < $BOXES; start += $THREADS) {
        if (workgroupUniformLoad(&done) != 0u) {
            break;
        }
        let place = min(start + thread, $BOXES - 1);
        let box = load_c(first + place);
        let own = sides(image, box);
        var open = start + thread < $BOXES && load_b(first + box) >= -0x1.fffffep127f;
        let before = chosen;
        for (var k = 0; k < before; k += $STEPS) {
            if (!open) { break; }
            #for j in STEPS
            open = open & !drives_out(sides(image, made(result + min(k + $j, before - 1))), own);
            #end
        }
        block_sides[thread] = own;
        workgroupBarrier();
        var mask = select(bit(thread), vec2<u32>(), open);
        if (open) {
            for (var k = 0; k < thread; k++) {
                mask |= select(vec2<u32>(), bit(k), drives_out(block_sides[k], own));
            }
        }
        rivals[thread] = mask;
        workgroupBarrier();
        if (thread == 0) {
            let most = limit();
            var count = chosen;
            var here = vec2<u32>();
            for (var k = 0; k < $THREADS; k++) {
                if (count < most && all((rivals[k] & (here | bit(k))) == vec2<u32>())) {
                    here |= bit(k);
                    put(result + count, load_c(first + start + k));
                    count++;
                }
            }
            chosen = count;
            let last = load_c(first + min(start + $THREADS, $BOXES) - 1);
            done = select(0u, 1u, count >= most || load_b(first + last) < -0x1.fffffep127f);
        }
        storageBarrier();
    }
    workgroupBarrier();
    for (var k = chosen + thread; k < $ROOM; k += $THREADS) {
        put(result + k, -1);
    }
}
