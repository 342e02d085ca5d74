// A dense policy network in plain JavaScript. Its file: the length of a JSON text (u32), the text, spaces up to a multiple
// of four bytes, then the float32 arrays of `shapes`, one after the other; all little-endian.

const ACTIVATIONS = {
  relu: (x) => Math.max(x, 0),
  tanh: Math.tanh,
  silu: (x) => x / (1 + Math.exp(-x)),
  gelu: (x) => x * (1 + Math.tanh(0.7978845608 * (x + 0.044715 * x ** 3))) / 2,
};

/** The network of a file, an ArrayBuffer: { settings, evaluate }. */
export function readNetwork(buffer) {
  const length = new DataView(buffer).getUint32(0, true);
  const settings = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  const weights = {};
  let at = Math.ceil((4 + length) / 4) * 4;
  for (const [name, shape] of Object.entries(settings.shapes)) {
    const size = shape.reduce((product, side) => product * side, 1);
    weights[name] = new Float32Array(buffer, at, size);
    at += 4 * size;
  }
  return { settings, evaluate: (features, legal) => evaluate(settings, weights, features, legal) };
}

/** (features f32[F], legal action ids) -> { logits by action, only of legal ones; value: the expected return }. */
function evaluate(settings, weights, features, legal) {
  if (features.length !== settings.features) throw new Error(`the network reads ${settings.features} features`);
  let x = settings.normalize ? normalised(features, weights["normaliser/mean"], weights["normaliser/variance"]) : features;
  for (let layer = 0; layer < settings.dense; layer++) {
    x = dense(x, weights[`dense_${layer}/kernel`], weights[`dense_${layer}/bias`]).map(ACTIVATIONS[settings.activation]);
  }
  const logits = dense(x, weights["policy/kernel"], weights["policy/bias"]);
  const [value] = dense(x, weights["value/kernel"], weights["value/bias"]);
  return { logits: new Map(legal.map((action) => [action, logits[action]])), value };
}

/** x [I], kernel [I * O] by rows, bias [O] -> x kernel + bias, summed in double precision. */
function dense(x, kernel, bias) {
  const out = Float64Array.from(bias), width = bias.length;
  x.forEach((number, row) => {
    if (number === 0) return;
    for (let column = 0, at = row * width; column < width; column++, at++) out[column] += number * kernel[at];
  });
  return out;
}

function normalised(x, mean, variance) {
  return x.map((number, i) => {
    const scale = variance[i] > 1e-8 ? 1 / Math.sqrt(variance[i] + 1e-8) : 1;
    return Math.min(Math.max((number - mean[i]) * scale, -10), 10);
  });
}

/** The best action, the lowest one of several. */
export const greedy = (logits) => [...logits].reduce((best, each) => each[1] > best[1] ? each : best)[0];

/** The probabilities of the legal actions: a Map. */
export function probabilities(logits) {
  const most = Math.max(...logits.values()), weights = [...logits].map(([action, logit]) => [action, Math.exp(logit - most)]);
  const total = weights.reduce((sum, [, weight]) => sum + weight, 0);
  return new Map(weights.map(([action, weight]) => [action, weight / total]));
}
