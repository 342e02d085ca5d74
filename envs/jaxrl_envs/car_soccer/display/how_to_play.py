"""The rules of car soccer on one page, for people who drive."""

TEXT = """
Two teams of cars play a ball into each other's goal. The first team (blue) attacks upwards in y, the second (orange)
downwards. A goal counts when the whole ball is behind the line.

Cars drive, jump, dodge (a second press of jump with a direction), turn in the air and boost. Boost comes from pads on
the floor: small ones give 12 and come back after 4 seconds, the six big ones fill the tank and take 10. A car faster
than 2,200 uu/s is supersonic: if its front runs into an opponent, that one is demolished and comes back after three
seconds near its goal.

Fifteen times a second every car chooses one of 90 rows of controls, all cars at the same time; a choice reaches the
car one tick (1/120 s) later. An episode ends with a goal, or is cut off when no car has touched the ball for a while.
In whole matches a kickoff follows every goal; after five minutes the team with more goals wins, and if they are even,
the next goal does.
"""
