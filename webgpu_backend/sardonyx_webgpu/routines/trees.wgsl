// The leaf to which a tree leads a row.

fn unit(tree: i32, row: i32) {
    let stride = $NEXT / $NODES;
    var node = load_b(tree);
    for (var k = 0; k < $DEPTH; k++) {
        let x = load_a(row * $FEATURES + load_c(node));
        var answer = select(0, 1, $AGREES);
        if (stride > 2) {
            answer = select(answer, 2, $MISSING);
        }
        node = load_e(node * stride + answer);
    }
    put(tree * $ROWS + row, node);
}
