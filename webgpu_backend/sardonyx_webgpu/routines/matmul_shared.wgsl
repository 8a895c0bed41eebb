// a [B, M, K] x b [B, K, N]: $THREADS threads load what they multiply together, $DOWN rows and $ACROSS fours of columns
// at a time. Each makes $ROWS rows and $QUADS fours, which lie $SIDE apart, so that neighbours read neighbours.

const LINE = 5; // fours of a row of a, one more than there are, so that rows begin in different banks

var<workgroup> left: array<vec4f, $(DOWN * 5)>;
var<workgroup> right: array<vec4f, $(ACROSS * 16)>;

fn four_a(batch: i32, row: i32, k: i32) -> vec4f {
    let at = at_a(batch, min(row, $M - 1), 0);
    #if DEEP
    return select(vec4f(), load4_a((at + min(k, $K - 4)) >> 2u), k < $K);
    #else
    let last = $K - 1;
    let x = vec4f(load_a(at + min(k, last) * $STEPA), load_a(at + min(k + 1, last) * $STEPA), load_a(at + min(k + 2, last) * $STEPA), load_a(at + min(k + 3, last) * $STEPA));
    return select(vec4f(), x, vec4(k) + vec4(0, 1, 2, 3) < vec4($K));
    #end
}

fn four_b(batch: i32, k: i32, quad: i32) -> vec4f {
    let at = at_b(batch, 0, 0) + min(k, $K - 1) * $LINEB;
    #if WIDE
    let x = load4_b((at >> 2u) + min(quad, $N / 4 - 1));
    #else
    let last = $N - 1;
    let n = 4 * quad;
    let x = vec4f(load_b(at + min(n, last) * $STEPB), load_b(at + min(n + 1, last) * $STEPB), load_b(at + min(n + 2, last) * $STEPB), load_b(at + min(n + 3, last) * $STEPB));
    #end
    return select(vec4f(), x, k < $K);
}

fn unit(batch: i32, down: i32, across: i32, thread: i32) {
    let y = thread / $SIDE;
    let x = thread % $SIDE;
    let row = down * $DOWN;
    let quad = across * $ACROSS;
    #for r in ROWS
    #for c in QUADS
    var sum$r_$c = vec4f();
    #end
    #end
    for (var k = 0; k < $K; k += 16) {
        for (var n = thread; n < $(4 * DOWN); n += $THREADS) {
            left[n / 4 * LINE + n % 4] = four_a(batch, row + n / 4, k + n % 4 * 4);
        }
        for (var n = thread; n < $(16 * ACROSS); n += $THREADS) {
            right[n] = four_b(batch, k + n / $ACROSS, quad + n % $ACROSS);
        }
        workgroupBarrier();
        for (var j = 0; j < 4; j++) {
            #for i in 4
            #for c in QUADS
            let y$i_$c = right[(4 * j + $i) * $ACROSS + x + $(c * SIDE)];
            #end
            #end
            #for r in ROWS
            let x$r = left[(y + $(r * SIDE)) * LINE + j];
            #for c in QUADS
            #for i in 4
            sum$r_$c = fma(vec4f(x$r[$i]), y$i_$c, sum$r_$c);
            #end
            #end
            #end
        }
        workgroupBarrier();
    }
    #for r in ROWS
    #for c in QUADS
    if (row + y + $(r * SIDE) < $M) {
        let column = 4 * (quad + x + $(c * SIDE));
        put_row((batch * $M + row + y + $(r * SIDE)) * $N + column, $N - column, sum$r_$c);
    }
    #end
    #end
}
