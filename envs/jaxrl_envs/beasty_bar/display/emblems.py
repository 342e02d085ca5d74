"""The twelve animals: small vector drawings of our own, within 44 units of the origin."""

from __future__ import annotations

_INK = "#2a211c"


def _eye(x: float, y: float, r: float = 3.4) -> str:
    """Returns a dark eye with a spark of light."""
    return (
        f'<circle cx="{x}" cy="{y}" r="{r}" fill="{_INK}"/>'
        f'<circle cx="{x + r * 0.32:.1f}" cy="{y - r * 0.36:.1f}" r="{r * 0.34:.1f}" fill="#fff"/>'
    )


def _mirrored(shape: str) -> str:
    """Returns a shape and its mirror image."""
    return f'{shape}<g transform="scale(-1,1)">{shape}</g>'


_SKUNK = (
    '<path d="M12,36 C44,42 52,2 38,-20 C28,-38 6,-46 -6,-38 C8,-38 18,-28 16,-8 Z" fill="#2b2b33"/>'
    '<path d="M24,30 C40,26 42,0 33,-15 C26,-28 14,-36 4,-36 C18,-28 26,-14 25,4 Z" fill="#f7f4ec"/>'
    + _mirrored('<circle cx="-21" cy="-11" r="8.5" fill="#2b2b33"/><circle cx="-21" cy="-11" r="4.2" fill="#e39aa0"/>')
    + '<path d="M-30,10 C-30,-14 -16,-24 0,-24 C16,-24 30,-14 30,10 C30,26 16,38 0,38 C-16,38 -30,26 -30,10 Z" '
    'fill="#2b2b33"/>'
    '<path d="M-7,-24 C-9,-6 -4,6 -2,16 L2,16 C4,6 9,-6 7,-24 C3,-25 -3,-25 -7,-24 Z" fill="#f7f4ec"/>'
    '<ellipse cx="0" cy="25" rx="14" ry="11" fill="#4a4a55"/>'
    '<path d="M-5.5,18 L5.5,18 C6,22 2,25 0,25 C-2,25 -6,22 -5.5,18 Z" fill="#e88d98"/>'
    '<path d="M0,25 L0,29 M-7,30 C-4,33 -1,32 0,29 C1,32 4,33 7,30" fill="none" stroke="#16161b" stroke-width="1.7" '
    'stroke-linecap="round"/>'
    + _mirrored('<ellipse cx="-13" cy="5" rx="6.4" ry="6.8" fill="#fff"/>')
    + _eye(-12, 6, 4)
    + _eye(12, 6, 4)
)
_PARROT = (
    '<path d="M-10,-26 C-22,-44 -30,-38 -33,-30 C-27,-30 -22,-26 -19,-20 Z" fill="#f3c233"/>'
    '<path d="M-3,-29 C-9,-46 -19,-46 -23,-39 C-17,-37 -13,-32 -11,-25 Z" fill="#e2622a"/>'
    '<path d="M-24,40 C-36,16 -30,-14 -12,-25 C4,-35 26,-26 28,-6 C29,6 20,12 14,14 C16,26 10,36 2,41 Z" '
    'fill="#d8342c"/>'
    '<path d="M-25,40 C-35,22 -33,4 -25,-4 C-12,4 -4,22 -7,41 Z" fill="#2f6fc0"/>'
    '<path d="M-30,12 C-22,16 -15,26 -14,41 M-31,24 C-26,28 -23,34 -22,40" fill="none" stroke="#1d4d8f" '
    'stroke-width="2"/>'
    '<path d="M-26,-4 C-18,0 -12,6 -9,14 C-16,6 -22,2 -28,2 Z" fill="#f3c233"/>'
    '<path d="M2,-16 C12,-22 24,-16 26,-4 C20,4 8,4 3,-2 C0,-6 0,-12 2,-16 Z" fill="#fbf3e2"/>'
    '<path d="M21,-17 C36,-20 45,-6 38,8 C36,13 33,14 32,11 C32,4 27,1 20,0 C24,-5 24,-12 21,-17 Z" fill="#f0a92c"/>'
    '<path d="M19,-1 C27,0 32,3 32,10 C26,13 20,10 16,5 Z" fill="#7d5316"/>'
    '<path d="M6,1 L15,2 M8,-3 L16,-1" stroke="#d8342c" stroke-width="1.4" stroke-linecap="round"/>'
    + _eye(12, -10, 4.4)
)
_KANGAROO = (
    _mirrored(
        '<path d="M-7,-14 C-20,-24 -25,-38 -20,-44 C-10,-42 -2,-30 -2,-16 Z" fill="#b5763f"/>'
        '<path d="M-9,-18 C-17,-26 -20,-35 -18,-39 C-12,-36 -6,-28 -5,-20 Z" fill="#e8b59a"/>'
    )
    + '<path d="M-20,-4 C-20,-16 -10,-21 0,-21 C10,-21 20,-16 20,-4 C20,8 15,16 14,24 C13,36 6,42 0,42 '
    'C-6,42 -13,36 -14,24 C-15,16 -20,8 -20,-4 Z" fill="#c68a50"/>'
    '<path d="M-6,-19 C-7,0 -13,14 -13,26 C-12,36 -6,42 0,42 C6,42 12,36 13,26 C13,14 7,0 6,-19 Z" fill="#deb17c"/>'
    '<path d="M-8,25 C-8,19 8,19 8,25 C8,31 3,33 0,33 C-3,33 -8,31 -8,25 Z" fill="#3a2a22"/>'
    '<ellipse cx="-2.6" cy="24.4" rx="2.4" ry="1.4" fill="#8d7a70"/>'
    '<path d="M0,33 L0,36 M-6,37 C-3,39.4 3,39.4 6,37" fill="none" stroke="#3a2a22" stroke-width="1.7" '
    'stroke-linecap="round"/>' + _eye(-12.5, -2, 4.2) + _eye(12.5, -2, 4.2) + '<path d="M-17,-8 C-15,-10 -11,-10 -9,-8 '
    'M17,-8 C15,-10 11,-10 9,-8" fill="none" stroke="#7c4a20" stroke-width="1.8" stroke-linecap="round"/>'
)
_MONKEY = (
    _mirrored('<circle cx="-30" cy="2" r="12" fill="#7a4a2a"/><circle cx="-30" cy="2" r="7.2" fill="#e7b789"/>')
    + '<path d="M-28,2 C-30,-22 -16,-36 0,-36 C16,-36 30,-22 28,2 C27,26 14,38 0,38 C-14,38 -27,26 -28,2 Z" '
    'fill="#7a4a2a"/>'
    '<path d="M-5,-37 C-8,-44 -2,-46 0,-42 C3,-46 9,-42 5,-36 Z" fill="#7a4a2a"/>'
    '<path d="M0,-14 C-6,-24 -22,-20 -21,-4 C-21,2 -18,6 -20,14 C-20,28 -10,34 0,34 C10,34 20,28 20,14 '
    'C18,6 21,2 21,-4 C22,-20 6,-24 0,-14 Z" fill="#f0c79b"/>'
    '<path d="M-3.6,10 L-2.2,12 M3.6,10 L2.2,12" stroke="#7a4a2a" stroke-width="2.4" stroke-linecap="round"/>'
    '<path d="M-12,19 C-7,29 7,29 12,19 C5,21 -5,21 -12,19 Z" fill="#a8323a"/>'
    '<path d="M-10,20.2 C-5,22 5,22 10,20.2 L8.6,22.6 C4,24 -4,24 -8.6,22.6 Z" fill="#fff"/>'
    + _eye(-9.5, -4, 4.4)
    + _eye(9.5, -4, 4.4)
)
_CHAMELEON = (
    '<path d="M-18,22 C-40,24 -45,-2 -28,-5 C-16,-6 -13,10 -24,11 C-30,11 -30,4 -25,4" fill="none" stroke="#5f9c34" '
    'stroke-width="6.5" stroke-linecap="round"/>'
    '<path d="M-22,20 C-22,-2 -8,-20 8,-22 C12,-32 20,-33 27,-27 C36,-20 42,-8 42,0 C38,7 26,9 18,8 '
    'C18,20 8,28 -6,28 Z" fill="#7cbf42"/>'
    '<path d="M8,-22 C12,-32 20,-33 27,-27 C22,-22 16,-17 13,-10 Z" fill="#5f9c34"/>'
    '<path d="M-17,12 C-13,0 -7,-8 2,-13 M-9,17 C-6,7 0,0 8,-4 M0,20 C2,13 6,8 12,5" fill="none" stroke="#e8c53a" '
    'stroke-width="3.4" stroke-linecap="round"/>'
    '<path d="M42,0 C34,2 26,2 20,-1" fill="none" stroke="#3d6b1d" stroke-width="1.9" stroke-linecap="round"/>'
    '<path d="M-8,26 C-9,32 -13,34 -16,36 M-8,26 C-7,32 -4,35 0,37 M9,22 C9,29 6,32 3,34 M9,22 C11,28 15,31 18,33" '
    'fill="none" stroke="#5f9c34" stroke-width="4" stroke-linecap="round"/>'
    '<path d="M-42,38 C-20,35 20,35 42,39" fill="none" stroke="#7a5230" stroke-width="4.6" stroke-linecap="round"/>'
    '<circle cx="23" cy="-12" r="9" fill="#a6d86b" stroke="#3d6b1d" stroke-width="1.5"/>'
    '<circle cx="23" cy="-12" r="5.6" fill="#e8853a"/>' + _eye(24, -12, 3)
)
_SEAL = (
    '<circle cx="8" cy="-33" r="11" fill="#f4f0e6" stroke="#8a3a34" stroke-width="0.8"/>'
    '<path d="M8,-44 A11,11 0 0 1 19,-33 L8,-33 Z M8,-22 A11,11 0 0 1 -3,-33 L8,-33 Z" fill="#d8423a"/>'
    '<circle cx="8" cy="-33" r="2.2" fill="#2f6fc0"/>'
    '<path d="M-34,40 C-30,22 -29,12 -26,2 C-22,-14 -10,-22 2,-22 C14,-22 25,-12 27,2 C30,14 32,26 36,40 Z" '
    'fill="#6f87a0"/>'
    '<path d="M-17,40 C-15,28 -10,22 1,22 C12,22 17,28 19,40 Z" fill="#a9bccd"/>'
    '<path d="M1,3 C-9,1 -17,8 -14,16 C-12,22 -3,23 1,18 C5,23 14,22 16,16 C19,8 11,1 1,3 Z" fill="#cfdae4"/>'
    '<path d="M-4.5,4 C-4.5,0 6.5,0 6.5,4 C6.5,7.6 3,9.4 1,9.4 C-1,9.4 -4.5,7.6 -4.5,4 Z" fill="#2a211c"/>'
    '<path d="M-6,14 L-30,10 M-6,16 L-30,18 M8,14 L32,10 M8,16 L32,18" stroke="#f4f0e6" stroke-width="1.3" '
    'stroke-linecap="round"/>' + _eye(-12, -4, 5.2) + _eye(14, -4, 5.2)
)
_ZEBRA = (
    '<path d="M-8,-22 C-10,-36 -4,-43 0,-44 C4,-43 10,-36 8,-22 Z" fill="#22232a"/>'
    + _mirrored(
        '<path d="M-10,-20 C-24,-24 -28,-34 -25,-41 C-15,-40 -8,-33 -5,-24 Z" fill="#f6f3ea" stroke="#22232a" '
        'stroke-width="2"/><path d="M-12,-25 C-19,-28 -21,-33 -20,-36 C-16,-34 -12,-31 -10,-27 Z" fill="#22232a"/>'
    )
    + '<path d="M-20,-10 C-20,-22 -10,-27 0,-27 C10,-27 20,-22 20,-10 C20,4 15,14 15,26 C15,38 8,43 0,43 '
    'C-8,43 -15,38 -15,26 C-15,14 -20,4 -20,-10 Z" fill="#f6f3ea" stroke="#22232a" stroke-width="1.6"/>'
    + _mirrored(
        '<path d="M-2,-26 C-3,-14 -4,-6 -1.4,6 C-5,-2 -8,-14 -7,-25 Z M-20,-7 C-14,-7 -9,-1 -6,8 C-10,3 -15,0 -19,0 Z '
        'M-17.5,7 C-12,8 -8,12 -5,17 C-9,15 -13,14 -16.4,14 Z" fill="#22232a"/>'
        '<path d="M-10.5,-25 C-11,-20 -13,-17 -19,-16 L-19.6,-12 C-13,-13 -9,-17 -8,-25 Z" fill="#22232a"/>'
    )
    + '<path d="M-15,26 C-14,20 14,20 15,26 C15,38 8,43 0,43 C-8,43 -15,38 -15,26 Z" fill="#3c3d47"/>'
    '<ellipse cx="-6" cy="29" rx="2.6" ry="3.4" fill="#15151a"/><ellipse cx="6" cy="29" rx="2.6" ry="3.4" '
    'fill="#15151a"/><path d="M-6,37 C-3,39 3,39 6,37" fill="none" stroke="#9a9aa6" stroke-width="1.6" '
    'stroke-linecap="round"/>'
    + _mirrored('<ellipse cx="-12.5" cy="-8.5" rx="4.8" ry="5" fill="#f6f3ea"/>')
    + _eye(-12.5, -8, 3.8)
    + _eye(12.5, -8, 3.8)
)
_GIRAFFE = (
    _mirrored(
        '<path d="M-7,-24 L-9,-38" stroke="#d9a02f" stroke-width="5" stroke-linecap="round"/>'
        '<circle cx="-9.3" cy="-40" r="4" fill="#6d3f1d"/>'
        '<path d="M-16,-16 C-28,-22 -36,-20 -40,-14 C-34,-6 -24,-5 -16,-9 Z" fill="#e9b53e"/>'
        '<path d="M-20,-14 C-27,-17 -32,-16 -35,-14 C-31,-10 -26,-9 -20,-11 Z" fill="#f3d3a6"/>'
    )
    + '<path d="M-19,-12 C-19,-24 -10,-28 0,-28 C10,-28 19,-24 19,-12 C19,2 13,10 15,24 C16,36 8,43 0,43 '
    'C-8,43 -16,36 -15,24 C-13,10 -19,2 -19,-12 Z" fill="#f0c04a"/>'
    '<path d="M-5,-25 L5,-25 L6,-17 L0,-13 L-6,-17 Z M-15,-20 L-9,-22 L-9,-16 L-16,-13 Z M15,-20 L9,-22 L9,-16 '
    'L16,-13 Z M-4,-8 L4,-8 L5,0 L0,4 L-5,0 Z M-14,4 L-8,2 L-7,9 L-12,12 Z M14,4 L8,2 L7,9 L12,12 Z" fill="#a5642a" '
    'stroke="#a5642a" stroke-width="1.5" stroke-linejoin="round"/>'
    '<path d="M-15,25 C-14,15 14,15 15,25 C16,36 8,43 0,43 C-8,43 -16,36 -15,25 Z" fill="#f6dcae"/>'
    '<ellipse cx="-5.5" cy="25" rx="2" ry="2.8" fill="#6d3f1d"/><ellipse cx="5.5" cy="25" rx="2" ry="2.8" '
    'fill="#6d3f1d"/><path d="M-8,33 C-4,37 4,37 8,33" fill="none" stroke="#6d3f1d" stroke-width="1.9" '
    'stroke-linecap="round"/>' + _eye(-13, -6, 4.2) + _eye(13, -6, 4.2)
)
_SNAKE = (
    '<path d="M-2,40 C-34,41 -44,28 -32,20 C-20,13 20,14 30,22 C38,30 24,37 6,35 C-12,33 -18,27 -8,22" fill="none" '
    'stroke="#2f8a5a" stroke-width="10.5" stroke-linecap="round"/>'
    '<path d="M-2,40 C-34,41 -44,28 -32,20 C-20,13 20,14 30,22 C38,30 24,37 6,35" fill="none" stroke="#f0d24a" '
    'stroke-width="2.6" stroke-dasharray="4 6" stroke-linecap="round"/>'
    '<path d="M-8,24 C6,18 12,8 4,-4 C-2,-14 -4,-20 4,-26" fill="none" stroke="#3aa56c" stroke-width="13" '
    'stroke-linecap="round"/>'
    '<path d="M-4,21 C8,16 10,7 2,-5" fill="none" stroke="#f0d24a" stroke-width="2.8" stroke-dasharray="4 6" '
    'stroke-linecap="round"/>'
    '<path d="M30,-16 L41,-12 L45,-16 M41,-12 L43,-7" fill="none" stroke="#d8342c" stroke-width="2.2" '
    'stroke-linecap="round" stroke-linejoin="round"/>'
    '<path d="M-8,-28 C-8,-40 8,-44 20,-38 C30,-34 36,-24 33,-17 C28,-10 12,-10 2,-13 C-5,-15 -8,-20 -8,-28 Z" '
    'fill="#3aa56c"/>'
    '<path d="M34,-19 C26,-15 16,-15 8,-18" fill="none" stroke="#1e6541" stroke-width="2" stroke-linecap="round"/>'
    '<circle cx="11" cy="-30" r="6.4" fill="#f7e27a"/><ellipse cx="12" cy="-30" rx="2" ry="5" fill="#2a211c"/>'
    '<circle cx="28.5" cy="-25.5" r="1.3" fill="#1e6541"/>'
)
_CROCODILE = (
    '<path d="M-42,10 C-42,-10 -32,-22 -20,-24 C-18,-32 -6,-33 -3,-25 C8,-22 20,-18 38,-17 C45,-16 45,-6 39,-4 '
    'L-2,4 L-14,14 L36,16 C43,17 43,27 36,28 C14,33 -10,34 -26,32 C-37,30 -42,22 -42,10 Z" fill="#4f8f43"/>'
    '<path d="M-42,14 C-41,24 -36,30 -26,32 C-10,34 14,33 36,28 C40,27 41.5,24 41,21 C20,25 -20,27 -42,14 Z" '
    'fill="#a9c979"/>'
    '<path d="M-14,14 L-2,4 L39,-4 L36,16 Z" fill="#8e2f33"/>'
    '<path d="M-14,14 L-2,4 L39,-4 L38,-4 L34,4 L30,-2 L25,6 L20,0 L15,8 L10,2 L6,9 L1,4 L-3,11 Z" fill="#fff8e6"/>'
    '<path d="M-14,14 L-6,14.4 L-2,8 L3,14.8 L8,9 L13,15.2 L18,9.5 L23,15.6 L28,10 L33,16 L36,16 Z" fill="#fff8e6"/>'
    '<path d="M-38,-6 L-41,-13 L-34,-13 L-34,-21 L-27,-19 Z" fill="#3a6d31"/>'
    '<circle cx="-12" cy="-23" r="7.4" fill="#f3e27a"/><ellipse cx="-10.6" cy="-23" rx="2.2" ry="5.6" '
    'fill="#2a211c"/><path d="M-20,-26 C-17,-33 -7,-33 -4,-26" fill="none" stroke="#3a6d31" stroke-width="3.2" '
    'stroke-linecap="round"/>'
    '<ellipse cx="36" cy="-12" rx="2.6" ry="1.8" fill="#24471e"/>'
    '<circle cx="-28" cy="0" r="2.2" fill="#3a6d31"/><circle cx="-20" cy="-6" r="2.2" fill="#3a6d31"/>'
    '<circle cx="-30" cy="10" r="2.2" fill="#3a6d31"/><circle cx="4" cy="-13" r="1.8" fill="#3a6d31"/>'
    '<circle cx="17" cy="-11" r="1.8" fill="#3a6d31"/>'
)
_HIPPO = (
    _mirrored(
        '<ellipse cx="-20" cy="-30" rx="7.6" ry="8.6" fill="#8d83a8" transform="rotate(-20 -20 -30)"/>'
        '<ellipse cx="-20" cy="-29" rx="4" ry="5" fill="#e0a9b4" transform="rotate(-20 -20 -29)"/>'
    )
    + '<path d="M-24,-8 C-26,-26 -14,-33 0,-33 C14,-33 26,-26 24,-8 C24,2 22,8 20,12 L-20,12 C-22,8 -24,2 -24,-8 Z" '
    'fill="#9a90b5"/>'
    '<path d="M-38,18 C-40,2 -26,-2 -14,0 C-6,2 6,2 14,0 C26,-2 40,2 38,18 C37,34 20,41 0,41 C-20,41 -37,34 -38,18 Z" '
    'fill="#aaa0c4"/>'
    '<path d="M-29,24 C-16,32 16,32 29,24 L27,27 C14,36 -14,36 -27,27 Z" fill="#6b4552"/>'
    '<path d="M-17,27.6 L-10,29.4 L-11,37 L-16.4,36 Z M17,27.6 L10,29.4 L11,37 L16.4,36 Z" fill="#fffbee" '
    'stroke="#c9bfa8" stroke-width="0.8"/>'
    '<ellipse cx="-13" cy="9" rx="4.4" ry="5.2" fill="#6a5f85"/><ellipse cx="13" cy="9" rx="4.4" ry="5.2" '
    'fill="#6a5f85"/>'
    + _mirrored('<ellipse cx="-11" cy="-15" rx="6.4" ry="6.8" fill="#fff"/>')
    + _eye(-10.4, -14, 4)
    + _eye(10.4, -14, 4)
    + '<circle cx="-27" cy="17" r="1.4" fill="#8479a3"/><circle cx="-23" cy="21" r="1.4" fill="#8479a3"/>'
    '<circle cx="27" cy="17" r="1.4" fill="#8479a3"/><circle cx="23" cy="21" r="1.4" fill="#8479a3"/>'
)
_LION = (
    '<path d="M0,-44 L9,-36 L20,-39 L24,-29 L35,-26 L34,-15 L43,-7 L37,3 L42,14 L33,20 L32,32 L20,33 L13,42 L0,38 '
    'L-13,42 L-20,33 L-32,32 L-33,20 L-42,14 L-37,3 L-43,-7 L-34,-15 L-35,-26 L-24,-29 L-20,-39 L-9,-36 Z" '
    'fill="#9c4a17" stroke="#9c4a17" stroke-width="3" stroke-linejoin="round"/>'
    '<circle cx="0" cy="0" r="32" fill="#c8701f"/>'
    + _mirrored('<circle cx="-20" cy="-19" r="8" fill="#e9a93b"/><circle cx="-20" cy="-19" r="4.2" fill="#9c4a17"/>')
    + '<path d="M-24,0 C-24,-16 -14,-23 0,-23 C14,-23 24,-16 24,0 C24,16 14,29 0,29 C-14,29 -24,16 -24,0 Z" '
    'fill="#f2bb4c"/>'
    '<path d="M0,9 C-8,7 -15,13 -12,20 C-10,25 -3,26 0,22 C3,26 10,25 12,20 C15,13 8,7 0,9 Z" fill="#fdeed0"/>'
    '<path d="M-6.4,7 L6.4,7 C7,12 2.6,14.6 0,14.6 C-2.6,14.6 -7,12 -6.4,7 Z" fill="#5b2a12"/>'
    '<path d="M0,14.6 L0,19 M-7,19.5 C-4,22.6 -1,21.8 0,19 C1,21.8 4,22.6 7,19.5" fill="none" stroke="#5b2a12" '
    'stroke-width="1.8" stroke-linecap="round"/>'
    '<path d="M-15,-10 C-12,-12.6 -8,-12.4 -6,-10.4 M15,-10 C12,-12.6 8,-12.4 6,-10.4" fill="none" stroke="#9c4a17" '
    'stroke-width="2.2" stroke-linecap="round"/>' + _eye(-10.2, -3, 4) + _eye(10.2, -3, 4)
)

EMBLEMS = (
    _SKUNK, _PARROT, _KANGAROO, _MONKEY, _CHAMELEON, _SEAL, _ZEBRA, _GIRAFFE, _SNAKE, _CROCODILE, _HIPPO, _LION,
)  # fmt: skip
"""SVG elements by strength - 1."""
