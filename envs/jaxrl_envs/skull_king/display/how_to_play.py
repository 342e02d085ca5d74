"""The rules of Skull King on one page, for people at the table."""

COLOURS = {r"Parrot \d+": "green", r"Chest \d+": "yellow", r"Map \d+": "magenta", r"Roger \d+": "blue"}

TEXT = """
Ten rounds. In round r each player is dealt r cards (eight players never get more than eight), bids in secret how many
tricks he will take, and then plays them.

Tricks. The leader plays any card; a player with a card of the suit that was led must play that suit, or any special
card. The highest card of the suit wins, and Jolly Roger (Roger) beats the other three: Parrot, Chest and Map. A led
Escape leaves the suit to the next card; a led character or beast frees all from following.

Special cards. Pirates beat all numbers, the Skull King beats pirates, a Mermaid beats numbers, but loses to pirates
and catches the Skull King (also if a pirate lies there too). Of equals the first wins. Escape never wins unless all
escape. The Tigress is played as a pirate or as an Escape.

Expansion. The Kraken destroys the trick: no one wins it. With the White Whale the highest number of any suit wins and
all specials count nothing; the later of the two beasts works. A Loot is an Escape that allies its player with the one
who wins the trick: 20 points for both if both bids come true.

Score of a round. An exact bid of one or more: 20 for each trick, and the captures. A wrong one: -10 for each trick
too many or too few. A bid of zero that comes true: 10 for each card dealt in the round, else as much lost. Captures
count with exact bids only: 10 for each 14 of a suit, 20 for that of Roger; 20 for each Mermaid taken by a pirate, 30
for each pirate taken by the Skull King, 40 for the Skull King taken by a Mermaid.

Abilities of the pirate that wins a trick. Rosie names who leads next. Bendt draws two cards and discards two. Roatan
wagers 0, 10 or 20 on his own bid. Jade looks at the cards that were not dealt. Harry changes his bid by one at the
end of the round, or leaves it.

The most points after ten rounds win. A card marked * in your hand may be played now.
"""
