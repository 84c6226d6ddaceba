// Lengths of arrays, as the compiler writes them: sums, products and quotients of names and numbers.

// The value of a length; `NaN` if a name has none.
export function value(length, sizes) {
  const words = length.match(/[A-Za-z_]\w*|\d+|[-+*/()]/g) ?? [];
  let at = 0;
  const first = () => {
    const word = words[at++];
    if (word === "(") {
      const inner = sum();
      at++;
      return inner;
    }
    if (word === "-") return -first();
    return /^\d/.test(word) ? Number(word) : (sizes[word] ?? NaN);
  };
  const product = () => {
    let all = first();
    while (words[at] === "*" || words[at] === "/") {
      all = words[at++] === "*" ? all * first() : Math.floor(all / first());
    }
    return all;
  };
  const sum = () => {
    let all = product();
    while (words[at] === "+" || words[at] === "-") all += words[at++] === "+" ? product() : -product();
    return all;
  };
  return words.length ? sum() : NaN;
}

// An argument for a parameter to begin with.
export function argument({ dtype, shape }, sizes) {
  if (shape.length) return `random:${shape.map((length) => value(length, sizes)).join("x")}`;
  if (dtype === "bool") return "true";
  return dtype.startsWith("f") || dtype === "bf16" ? "0.5" : "3";
}
