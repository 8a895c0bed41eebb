// The sides in the order of round `k`: who goes first alternates, since the first finds colder caches.
export const turns = (sides, k) => (k % 2 ? [...sides].reverse() : [...sides]);
