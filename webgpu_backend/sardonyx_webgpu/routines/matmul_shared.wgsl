// a [B, M, K] x b [B, K, N]: $THREADS threads load what they multiply together, $DOWN rows and $ACROSS fours of columns
// at a time. Each makes $ROWS rows and $QUADS fours, which lie $SIDE apart, so that neighbours read neighbours.

const LINE = 5; // fours of a row of a, one more than there are, so that rows begin in different banks

var<workgroup> left: array<vec4f, $(DOWN * 5)>;
var<workgroup> right: array<vec4f, $(ACROSS * 16)>;

#include LEFT
#include RIGHT
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
            left[n / 4 * LINE + n % 4] = four_a(at_a(batch, min(row + n / 4, $M - 1), 0), k + n % 4 * 4);
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
        put_row((batch * $M + row + y + $(r * SIDE)) * $N + column, $N - column, of_column(column), sum$r_$c);
    }
    #end
    #end
}
