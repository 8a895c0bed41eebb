// Fours of q, k and v, wherever they lie; what is beyond the width of a head is zero.

#for o in 3
#if four[o]
fn four_$(names[o])(at: i32, quad: i32) -> vec4f {
    return load4_$(letters[o])((at >> 2u) + quad);
}
#else
fn one_$(names[o])(at: i32, x: i32) -> f32 {
    return select(0.0, load_$(letters[o])(at + min(x, $(wide[o]) - 1) * $(step[o])), x < $(wide[o]));
}

fn four_$(names[o])(at: i32, quad: i32) -> vec4f {
    let x = 4 * quad;
    return vec4f(one_$(names[o])(at, x), one_$(names[o])(at, x + 1), one_$(names[o])(at, x + 2), one_$(names[o])(at, x + 3));
}
#end

#end
