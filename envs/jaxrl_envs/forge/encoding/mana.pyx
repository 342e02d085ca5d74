"""Whether the mana that a seat can make pays for a card: by number and by color, as far as its facts tell."""

from jaxrl_envs.forge cimport layout as at
from jaxrl_envs.forge.encoding.values cimport get, text
from jaxrl_envs.forge.encoding.view cimport Card, DecisionView

from jaxrl_envs.forge.layout import POOL


cdef void earn(Purse* purse, int makes) noexcept:
    cdef int k
    purse.total += makes != 0
    for k in range(6):
        purse.of[k] += makes >> k & 1


cdef Purse purse(DecisionView view, bint now) except *:
    """The mana that the seat can make: untapped and in its pool, or all next turn with a land of its hand."""
    cdef Purse found
    cdef Card card
    cdef int k, land = 0
    cdef bint creature
    found.total = 0
    for k in range(6):
        found.of[k] = 0
    for card in view.cards:
        if card.controller != view.seat:
            continue
        if card.zone == at.ZONE_BATTLEFIELD:
            creature = card.types >> at.CARD_TYPE_CREATURE & 1
            if not now or not (card.tapped or (creature and card.sick)):
                earn(&found, card.makes)
        elif card.zone == at.ZONE_HAND and card.types >> at.CARD_TYPE_LAND & 1:
            land |= card.makes
    if now:
        pool = text(get(view.players[view.seat], "mana_pool"))
        for letter in pool:
            k = POOL.find(letter)
            earn(&found, 1 << k if k >= 0 else 0)
    else:
        earn(&found, land)
    return found


cdef bint affords(Purse purse, Card card) except *:
    """Whether there is mana enough, and enough of each color."""
    cdef int k, least = -1 if card.kind is None else card.kind.least
    if (card.mana_value if least < 0 else least) > purse.total:
        return False
    if card.kind is None or card.kind.hybrid:
        return True
    for k, pips in enumerate(card.kind.pips):
        if <int>pips > purse.of[k]:
            return False
    return True
