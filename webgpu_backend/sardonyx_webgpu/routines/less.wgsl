// Whether a key comes before another one.
fn less(x: $KEY, y: $KEY) -> bool {
    #if WIDE
    return u64_lt(x, y);
    #else
    return x < y;
    #end
}
