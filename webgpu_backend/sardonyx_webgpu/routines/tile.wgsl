// A product of matrices [B, M, K] x [B, K, N]: a thread makes $ROWS rows of $QUADS fours of columns, as $SUMS sums them.
// Where it is SPLIT, threads of a workgroup have parts of the sums of $BESIDE tiles side by side.

#if SPLIT
var<workgroup> parts: array<$VECTOR, $(THREADS * ROWS * QUADS)>;

// Adds up what all threads have put there, and puts the results.
fn finish(batch: i32, row: i32, group: i32, thread: i32) {
    workgroupBarrier();
    for (var n = thread; n < $(ROWS * QUADS * BESIDE); n += $THREADS) {
        let tile = n % $BESIDE;
        let number = n / $BESIDE;
        var total = $VECTOR();
        for (var slice = 0; slice < $SLICES; slice++) {
            total += parts[number * $THREADS + slice * $BESIDE + tile];
        }
        let r = row + number / $QUADS;
        let column = 4 * ((group * $BESIDE + tile) * $QUADS + number % $QUADS);
        if (r < $M) {
            put_row((batch * $M + r) * $N + column, $N - column, of_column(column), total);
        }
    }
}

fn unit(batch: i32, down: i32, group: i32, thread: i32) {
    let quad = (group * $BESIDE + thread % $BESIDE) * $QUADS;
    let slice = thread / $BESIDE;
#else
fn unit(batch: i32, down: i32, across: i32) {
    let quad = across * $QUADS;
    let slice = 0;
#end
    let row = down * $ROWS;
    let column = 4 * quad;
    #include SUMS
    #if SPLIT
    #for r in ROWS
    #for c in QUADS
    parts[$(r * QUADS + c) * $THREADS + thread] = sum$r_$c;
    #end
    #end
    finish(batch, row, group, thread);
    #else
    let first = (batch * $M + row) * $N + column;
    #for c in QUADS
    let same$c = of_column(column + 4 * $c);
    #end
    // Rows follow one another in the first place: what is written once for all of them compiles sooner.
    for (var r = 0; r < min($ROWS, $M - row); r++) {
        #for c in QUADS
        put_row(first + r * $N + 4 * $c, $N - column - 4 * $c, same$c, sum0_$c);
        #end
        #for r in ROWS - 1
        #for c in QUADS
        sum$r_$c = sum$(r + 1)_$c;
        #end
        #end
    }
    #end
}
