// Moving bodies in three dimensions: an arena, spots on its floor, a ball, cars. It knows no game: what is there, how large
// and where, tells `Playback.space` (jaxrl/envs/playback.py). Lengths are divided by its unit; z is up.
import {
  BackSide, BoxGeometry, BufferGeometry, Color, ConeGeometry, CylinderGeometry, DirectionalLight, EdgesGeometry, ExtrudeGeometry, Fog, Group,
  HemisphereLight, Line, LineBasicMaterial, LineLoop, LineSegments, Mesh, MeshBasicMaterial, MeshLambertMaterial, PerspectiveCamera,
  PlaneGeometry, Quaternion, RingGeometry, Scene, Shape, ShapeGeometry, SphereGeometry, Vector3, WebGLRenderer, CircleGeometry, IcosahedronGeometry,
} from "three";
import { OrbitControls } from "three/examples/jsm/controls/OrbitControls.js";

const JUMP = 15; // units between two key frames from which on a body was put there and did not move there
const TRAIL = 0.9; // seconds of the ball's way
const NIGHT = "#1b2a3a", GROUND = "#3b7358", MOWN = "#468365", LINES = "#e3f2ea", WALL = "#9fc4e8", BALL = "#f2ead7", PAD = "#ffd23f";

const lambert = (color, more = {}) => new MeshLambertMaterial({ color, ...more });

/** What stands still. */
function arena(space) {
  const group = new Group();
  const found = space.arena;
  const scale = 1 / space.unit;
  if (!found) {
    const floor = new Mesh(new PlaneGeometry(160, 160), lambert(GROUND));
    group.add(floor);
    return group;
  }
  const points = found.outline.map(([x, y]) => new Vector3(x * scale, y * scale, 0));
  const outline = new Shape(points);
  const high = found.height * scale, paint = new MeshBasicMaterial({ color: LINES });
  group.add(new Mesh(new ShapeGeometry(outline), lambert(GROUND)), ...stripes(points), walls(points, high));
  for (const height of [0.03, high]) {
    group.add(new LineLoop(new BufferGeometry().setFromPoints(points.map((point) => point.clone().setZ(height))), new LineBasicMaterial({ color: LINES })));
  }
  const across = Math.max(...points.map((point) => point.x));
  for (const mark of [new PlaneGeometry(2 * across, 0.2), new RingGeometry(9.05, 9.25, 64)]) {
    const mesh = new Mesh(mark, paint);
    mesh.position.z = 0.03;
    group.add(mesh);
  }
  const corners = points.flatMap((point) => [point, point.clone().setZ(high)]);
  group.add(new LineSegments(new BufferGeometry().setFromPoints(corners), new LineBasicMaterial({ color: LINES, transparent: true, opacity: 0.4 })));
  for (const goal of found.goals) group.add(goalOf(goal, scale, space.colours[goal.team]));
  return group;
}

/** Bands of mown grass across the middle, by which one sees how fast one drives. */
function stripes(points) {
  const most = (measure) => Math.max(...points.map(measure)), bands = 16;
  const [side, end, corner] = [most(({ x }) => x), most(({ y }) => y), most(({ x, y }) => x + y)], deep = 2 * end / bands;
  return Array.from({ length: bands / 2 }, (_, i) => {
    const y = (2 * i + 0.5) * deep - end, half = Math.min(side, corner - Math.abs(y) - deep / 2);
    const band = new Mesh(new PlaneGeometry(2 * half, deep), lambert(MOWN));
    band.position.set(0, y, 0.01);
    return band;
  });
}

/** Panes along the outline (anticlockwise), seen from inside alone. */
function walls(points, high) {
  const corners = points.flatMap((from, i) => {
    const to = points[(i + 1) % points.length], [a, b] = [from.clone().setZ(high), to.clone().setZ(high)];
    return [from, to, b, from, b, a];
  });
  return new Mesh(new BufferGeometry().setFromPoints(corners),
    new MeshBasicMaterial({ color: WALL, transparent: true, opacity: 0.13, depthWrite: false, side: BackSide }));
}

function goalOf(goal, scale, color) {
  const box = new BoxGeometry(2 * goal.half * scale, goal.depth * scale, goal.height * scale);
  const group = new Group();
  group.add(new LineSegments(new EdgesGeometry(box), new LineBasicMaterial({ color })));
  group.add(new Mesh(box, new MeshBasicMaterial({ color, transparent: true, opacity: 0.32, depthWrite: false })));
  const [half, high, mouth] = [goal.half * scale, goal.height * scale, -Math.sign(goal.y) * goal.depth / 2 * scale];
  for (const [x, z, wide, tall] of [[-half, 0, 0.3, high], [half, 0, 0.3, high], [0, high / 2, 2 * half + 0.3, 0.3]]) {
    const post = new Mesh(new BoxGeometry(wide, 0.3, tall), new MeshBasicMaterial({ color }));
    post.position.set(x, mouth, z);
    group.add(post);
  }
  group.position.set(0, (goal.y + Math.sign(goal.y) * goal.depth / 2) * scale, goal.height * scale / 2);
  return group;
}

/** A car: its box rounded off, a cabin, wheels, and a flame that is shown while it burns. */
function car(body, space, number) {
  const scale = 1 / space.unit;
  const [long, wide, high] = body.size.map((side) => side * scale);
  const group = new Group();
  const inner = new Group();
  inner.position.set(...body.offset.map((part) => part * scale));
  const color = space.colours[body.team];
  const side = new Shape([[-0.5, -0.3], [0.5, -0.3], [0.5, -0.02], [0.15, 0.1], [-0.05, 0.5], [-0.38, 0.5], [-0.5, 0.12]].map(
    ([x, z]) => ({ x: x * long, y: z * high })));
  const hull = new Mesh(new ExtrudeGeometry(side, { depth: wide * 0.86, bevelEnabled: false }), lambert(color));
  hull.rotation.x = Math.PI / 2;
  hull.position.y = wide * 0.43;
  inner.add(hull);
  const glass = new Mesh(new BoxGeometry(long * 0.2, wide * 0.7, high * 0.26), lambert("#0d151d"));
  glass.position.set(-long * 0.16, 0, high * 0.39);
  inner.add(glass);
  const round = high * 0.36;
  for (const [x, y] of [[0.34, 1], [0.34, -1], [-0.32, 1], [-0.32, -1]]) {
    const wheel = new Mesh(new CylinderGeometry(round, round, wide * 0.16, 14), lambert("#15191f"));
    wheel.position.set(x * long, y * wide * 0.46, -high * 0.3);
    inner.add(wheel);
  }
  const flame = new Mesh(new ConeGeometry(high * 0.26, long * 0.7, 10), new MeshBasicMaterial({ color: "#ffe28a", transparent: true, opacity: 0.85 }));
  flame.rotation.z = Math.PI / 2;
  flame.position.set(-long * 0.84, 0, 0);
  flame.visible = false;
  inner.add(flame);
  group.add(inner);
  const pin = new Mesh(new ConeGeometry(0.5, 1, 8), new MeshBasicMaterial({ color, fog: false }));
  pin.rotation.x = -Math.PI / 2;
  return { group, flame, pin, number };
}

function ball(body, space) {
  const radius = body.size[0] / space.unit;
  const group = new Group();
  group.add(new Mesh(new SphereGeometry(radius, 28, 18), lambert(BALL)));
  group.add(new LineSegments(new EdgesGeometry(new IcosahedronGeometry(radius * 1.004, 1)), new LineBasicMaterial({ color: "#8c8776" })));
  return { group };
}

const shadowOf = (radius) => new Mesh(new CircleGeometry(radius, 24),
  new MeshBasicMaterial({ color: "#000", transparent: true, opacity: 0.34, depthWrite: false }));

/** Where key frame times[i] <= time < times[i + 1]. */
function before(times, time) {
  let [low, high] = [0, times.length - 1];
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (times[middle] <= time) low = middle;
    else high = middle - 1;
  }
  return low;
}

export class Space {
  constructor(head) {
    this.canvas = document.createElement("canvas");
    this.canvas.setAttribute("role", "img");
    this.canvas.setAttribute("aria-label", "the game in three dimensions");
    this.canvas.tabIndex = 0;
    this.element = document.createElement("div");
    this.element.className = "stage space";
    this.element.append(this.canvas);
    this.controls = document.createElement("div");
    this.controls.className = "cameras";
    this.controls.setAttribute("role", "group");
    this.controls.setAttribute("aria-label", "camera");
    this.eye = new PerspectiveCamera(60, 16 / 9, 0.5, 600);
    this.eye.up.set(0, 0, 1);
    this.home();
    this.renderer = new WebGLRenderer({ canvas: this.canvas, antialias: true, powerPreference: "low-power" });
    this.orbit = new OrbitControls(this.eye, this.canvas);
    this.orbit.maxPolarAngle = Math.PI * 0.495;
    this.orbit.maxDistance = 180;
    this.orbit.addEventListener("change", () => this.later());
    this.follows = "free";
    this.ahead = false; // whether a camera behind a car looks ahead, not at the ball
    this.load(head);
    new ResizeObserver(() => this.resize()).observe(this.element);
    addEventListener("keydown", (event) => {
      const busy = event.target.closest?.("input:not([type=range]), select") || event.ctrlKey || event.metaKey || event.altKey;
      if (!busy && event.key === "c") this.follow(this.views[(this.views.indexOf(this.follows) + 1) % this.views.length]);
    });
  }

  /** Another scene in the place of this one, such as the same with all its moments. */
  load(head) {
    this.head = head;
    this.space = head.space;
    this.scene?.traverse((each) => { each.geometry?.dispose(); each.material?.dispose(); }); // held beyond the scene
    this.scene = new Scene();
    this.scene.background = new Color(NIGHT);
    this.scene.fog = new Fog(NIGHT, 130, 330);
    const sun = new DirectionalLight("#fff4e0", 2.2);
    sun.position.set(20, -35, 70);
    this.scene.add(new HemisphereLight("#eaf2fb", "#4d6459", 2.4), sun, arena(this.space));
    this.bodies = this.space.bodies.map((body, number) => this.add(body, number));
    this.spots = this.space.spots.map((spot) => {
      const disc = new Mesh(new CircleGeometry(spot.radius / this.space.unit, 20), new MeshBasicMaterial({ color: PAD, transparent: true, opacity: 0.75 }));
      disc.position.set(spot.place[0] / this.space.unit, spot.place[1] / this.space.unit, 0.03);
      this.scene.add(disc);
      return disc;
    });
    this.trail = new Line(new BufferGeometry(), new LineBasicMaterial({ color: BALL, transparent: true, opacity: 0.4 }));
    this.trail.frustumCulled = false;
    this.scene.add(this.trail);
    this.views = ["free", ...this.bodies.map((body) => body.name)];
    this.controls.replaceChildren(...this.views.map((name) => this.button(name)));
    this.follow(this.views.includes(this.follows) ? this.follows : "free");
  }

  add(body, number) {
    const made = body.shape === "ball" ? ball(body, this.space) : car(body, this.space, number);
    const radius = (body.shape === "ball" ? body.size[0] : body.size[0] * 0.55) / this.space.unit;
    const shadow = shadowOf(radius);
    this.scene.add(made.group, shadow, ...(made.pin ? [made.pin] : []));
    return { ...body, ...made, shadow, way: new Vector3(1, 0, 0) };
  }

  button(name) {
    const button = document.createElement("button");
    button.textContent = name === "free" ? "free camera" : name;
    button.addEventListener("click", () => this.follow(name));
    button.dataset.view = name;
    return button;
  }

  follow(name) {
    this.follows = name;
    for (const button of this.controls.children) button.setAttribute("aria-pressed", button.dataset.view === name);
    this.orbit.enabled = name === "free";
    if (name === "free" && this.placed) {
      this.home();
      this.orbit.target.set(0, 0, 0);
    }
    this.placed = false;
    this.later();
  }

  home() {
    this.eye.position.set(62, -10, 36);
  }

  resize() {
    const [width, height] = [this.element.clientWidth, this.canvas.clientHeight];
    if (!width || !height) return;
    this.renderer.setPixelRatio(Math.min(devicePixelRatio, 2));
    this.renderer.setSize(width, height, false);
    this.eye.aspect = width / height;
    this.eye.fov = width < height ? 75 : 58;
    this.eye.updateProjectionMatrix();
    this.later();
  }

  /** Draws once, soon, however often it is asked to. */
  later() {
    this.due ??= requestAnimationFrame(() => { this.due = null; this.render(); });
  }

  async show(place) {
    this.place = place;
    this.later();
  }

  pose(body, time) {
    const times = this.space.times;
    const at = before(times, time);
    const next = Math.min(at + 1, times.length - 1);
    const read = (i) => new Vector3(...body.places.slice(3 * i, 3 * i + 3)).divideScalar(this.space.unit);
    const turn = (i) => new Quaternion(...body.turns.slice(4 * i, 4 * i + 4));
    const share = next > at ? Math.min(1, Math.max(0, (time - times[at]) / (times[next] - times[at]))) : 0;
    const [from, to] = [read(at), read(next)];
    const apart = from.distanceTo(to) > Math.max(JUMP, 60 * (times[next] - times[at]));
    if (!apart) body.group.quaternion.copy(turn(at)).slerp(turn(next), share);
    else body.group.quaternion.copy(turn(at));
    return { at, place: apart ? from : from.lerp(to, share) };
  }

  render() {
    const time = (this.place || 0) * this.head.seconds;
    let at = 0;
    this.bodies.forEach((body) => {
      const found = this.pose(body, time);
      at = found.at;
      body.group.position.copy(found.place);
      body.group.visible = body.shadow.visible = !body.gone?.[at];
      body.shadow.position.set(found.place.x, found.place.y, 0.05);
      body.shadow.material.opacity = 0.4 / (1 + found.place.z / 6);
      if (body.flame) body.flame.visible = this.burns(body.number - 1);
    });
    this.spots.forEach((disc, i) => { disc.visible = this.space.spots[i].there[at] ?? true; });
    this.drawTrail(time);
    this.look();
    for (const body of this.bodies) if (body.pin) this.mark(body);
    this.renderer.render(this.scene, this.eye);
    this.element.dataset.frame = Math.floor(this.place || 0);
    this.element.dataset.drawn = this.renderer.info.render.triangles;
  }

  /** The pin above a car, which is as large from everywhere; the car that the camera follows has none. */
  mark(body) {
    const away = this.eye.position.distanceTo(body.group.position);
    const size = away * 0.016;
    body.pin.visible = body.group.visible && body.name !== this.follows && away > 12;
    body.pin.scale.setScalar(size);
    body.pin.position.copy(body.group.position).add(new Vector3(0, 0, 0.9 + size));
  }

  burns(seat) {
    const boost = this.head.curves.boost;
    const frame = Math.floor(this.place || 0);
    return !!boost?.[frame + 1] && boost[frame + 1][seat] < boost[frame][seat] - 0.5;
  }

  drawTrail(time) {
    const body = this.bodies[0];
    const points = [];
    const now = { q: body.group.quaternion.clone() };
    for (let back = TRAIL; back >= 0; back -= 0.06) if (time - back >= 0) points.push(this.pose(body, time - back).place);
    body.group.quaternion.copy(now.q);
    this.trail.geometry.dispose();
    this.trail.geometry = new BufferGeometry().setFromPoints(points.length > 1 ? points : [new Vector3(), new Vector3()]);
  }

  /** Puts the camera behind the car that it follows, looking at the ball; or turns it after the ball. */
  look() {
    const body = this.bodies.find((each) => each.name === this.follows);
    if (!body) {
      this.orbit.update();
      return;
    }
    const middle = this.bodies[0].group.position;
    const own = body.group.position;
    if (body.shape === "ball") {
      this.eye.position.set(own.x * 0.55 + 42, own.y * 0.8, 26);
      this.eye.lookAt(own);
    } else {
      const away = this.ahead ? new Vector3(-1, 0, 0).applyQuaternion(body.group.quaternion).setZ(0) : own.clone().sub(middle).setZ(0);
      if (!this.ahead && away.length() < 3) away.copy(body.way);
      body.way.copy(away.normalize());
      this.eye.position.copy(own).addScaledVector(away, 5.2).add(new Vector3(0, 0, 2.1));
      this.eye.position.z = Math.max(this.eye.position.z, 0.6);
      this.eye.lookAt((this.ahead ? own.clone().addScaledVector(away, -9) : own.clone().lerp(middle, 0.35)).add(new Vector3(0, 0, 0.8)));
    }
    this.placed = true;
  }
}
