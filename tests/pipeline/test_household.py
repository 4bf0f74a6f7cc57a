"""The example of the README, with the real model: a question that shares no specific word with its answer."""

from __future__ import annotations

import pytest

NOTES = """\
Ana's birthday is on 12 March.
The dentist appointment is on Tuesday at nine.
We drink green tea in the morning.
The car needs new winter tyres in November.
Ben is allergic to peanuts.
The wifi password is on the router.
The plumber's name is Jorge and he is cheap.
Our flight to Lisbon leaves at 7:40.
The cat must not eat lilies.
Rent is due on the first of each month.
The boiler was serviced in May.
Mia prefers the window seat.
The recipe for the lemon cake is in the blue folder.
The recycling is collected every second Thursday.
Tom plays the cello in the town orchestra.
The printer needs a black cartridge.
The library books are due on Friday.
Grandma's phone number ends in 42.
The neighbours are on holiday until August.
The tomatoes need water every evening.
The insurance for the bike costs 40 euros a year.
Paul's new job starts in September.
The garage door sticks when it rains.
The old laptop is in the attic.
The swimming pool opens at six.
We booked the restaurant for eight people.
The doctor said to take the pills after meals.
The wedding is in the old town hall.
The spare light bulbs are in the kitchen drawer.
The dog sleeps in the living room.
The electricity meter is behind the coats.
Sara wants to learn to ski.
The school trip costs 25 euros.
The train to Porto takes three hours.
The garden hose leaks near the tap.
Dad likes his coffee black.
The heating is set to 20 degrees.
The bakery closes at noon on Saturdays.
The concert tickets are in my email.
The gym membership ends in June.
Leo lost his first tooth yesterday.
The parcel was left with the neighbour at number 7.
The bookshelf holds the travel guides.
The vet is open on Sundays.
The washing machine beeps when it is done.
The meeting with the bank is on Monday.
Nina's flat is on the third floor.
The summer house has no internet.
The paint for the fence is called moss green.
The alarm code of the office is 4711.
"""


@pytest.mark.parametrize("key", ["The spare key is under the flower pot", "The key is under the pot by the back door."])
def test_the_key_is_among_the_first_five_of_fifty_one_notes(engine, key):
    notes = NOTES.splitlines()
    assert len(notes) == 50
    engine.remember_many([*({"text": note} for note in notes), {"text": key}])

    recall = engine.recall("how do I get into the house?", limit=5)

    assert key in [hit.memory.text for hit in recall]
