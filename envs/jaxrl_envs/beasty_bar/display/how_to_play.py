"""The rules of Beasty Bar on one page, for people at the table."""

TEXT = """
Both players have the same twelve animals, four of them in the hand, the others in a deck. In your turn you send one
animal to the back of the queue, it does what it can, then the animals that act again and again do so, from the front
to the back, and you draw a card. As soon as five animals queue, the first two enter the bar and the last one is
thrown out (THAT'S IT). The game ends once twenty animals have left the queue; the most points in the bar win.

Animals by strength and (points). Those with a star act in every turn.

12 lion (2): goes to the front and throws out all monkeys; if there is a lion already, it is thrown out itself.

11 hippo* (2): pushes forward past all weaker animals; a zebra stops it.

10 crocodile* (3): eats its way forward through all weaker animals; a zebra stops it.

9 snake (2): sorts the queue by strength, the strongest first.

8 giraffe* (3): steps over the animal ahead of it if that is weaker.

7 zebra (4): neither hippo nor crocodile gets past it.

6 seal (2): turns the queue round.

5 chameleon (3): does once what another animal of the queue does.

4 monkey (3): alone nothing; two or more throw out hippos and crocodiles and go to the front, the new one first.

3 kangaroo (4): jumps over the last one or two animals.

2 parrot (4): throws out an animal of your choice.

1 skunk (4): throws out the two strongest kinds of animals, but never a skunk.
"""
