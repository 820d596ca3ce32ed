"""The grammar of the invented people's messages (``models.corpora.personas``), as plain data.

``RULES`` maps a name to its alternatives; ``{name}`` in an alternative is replaced by one of the alternatives of that
name. Each topic of ``TOPICS`` has sentences and, by name, the words that fill their slots.
"""

from __future__ import annotations


def _alternatives(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split("|"))


NAMES = _alternatives(
    "amara|ben|carla|dev|elena|farid|greta|hana|ivo|jonas|kemi|leo|mina|noah|olga|pavel|quinn|rosa|sami|tara|umar|vera|"
    "wes|xenia|yusuf|zoe|anna|bruno|chidi|dora|emil|freya|gus|heidi|imran|julia|karim|lena|marco|nadia|oscar|priya|"
    "rafa|sofia|theo|ursula|viktor|wanda|yara|zack"
)

PLACES = _alternatives(
    "the station|the library|the corner cafe|the park|the office|the old bridge|the market|the harbour|the cinema|"
    "the bakery|the bus stop|the town hall|the pool|the museum|the usual place|the back gate|the bookshop|the square"
)

DAYS = _alternatives("monday|tuesday|wednesday|thursday|friday|saturday|sunday")

RULES: dict[str, tuple[str, ...]] = {
    name: _alternatives(text)
    for name, text in {
        # The structure of a message: {about} is a sentence of one of the person's topics.
        "message": "{about}.|{about}. {remark}.|{hello} {friend}, {about}.|{plan}?|{plan}? {reason}.|{whereabouts}.|"
        "{whereabouts}. {remark}.|{request}?|{request}? {thanks}.|{answer}.|{answer}, {remark}.|"
        "{hello} {friend}, {ask}?|{ask}?|{habit}.|{habit}. {remark}.|{thanks} {friend}, {remark}.|{feeling}. {about}.|"
        "{about}, {tail}.",
        "hello": "Hi|Hey|Hello|Good morning|Good evening|Morning",
        "thanks": "Thanks|Thank you so much|Thanks a lot|Cheers|Many thanks",
        "time": "at {hour}|at half past {hour}|at quarter to {hour}|in ten minutes|in half an hour|after work|"
        "after lunch|before dinner|tonight|tomorrow|tomorrow morning|this afternoon|on {day}|next week",
        "hour": "one|two|three|four|five|six|seven|eight|nine|ten",
        "day": "monday|tuesday|wednesday|thursday|friday|saturday|sunday",
        "plan": "Do you want to meet {time}|Shall we meet at {place} {time}|Are you free {time}|Can we talk {time}|"
        "Would you like to come over {time}|Do you want to grab {drink} {time}|Should i wait for you at {place}|"
        "Are we still on for {time}|Shall i pick you up {time}",
        "drink": "a coffee|a beer|some tea|a quick bite|some lunch|an ice cream",
        "reason": "I have the whole day off|I need to tell you something|It has been ages|{friend} is coming too|"
        "I will be near {place} anyway|We have a lot to talk about|It would be nice to see you|No rush though",
        "whereabouts": "I am at {place}|I am on my way home|I am running late|I will be there {time}|"
        "Just got to {place}|I am stuck in traffic near {place}|On the train now|I am waiting for {friend} at {place}|"
        "Leaving the house now|I will be home {time}|Still at {place} with {friend}|I missed the bus again",
        "request": "Can you call me {time}|Can you bring {thing} {time}|Could you send me {thing}|"
        "Can you ask {friend} about it|Could you pick up {thing} on your way home|Will you let {friend} know|"
        "Can you remind me {time}|Could you leave {thing} with {friend}|Did you see {thing} anywhere",
        "thing": "the keys|my charger|the tickets|some milk|the blue bag|the address|the photos|my umbrella|the papers|"
        "a loaf of bread|the number|my jacket",
        "answer": "Yes please|Yes of course|No problem|Sounds good to me|Sorry i can't make it {time}|"
        "I am not sure yet|Let me check and call you back|That works for me|Maybe {time}|I would love to|"
        "Not today i am afraid|Okay see you {time}|No i have not heard from {friend} yet",
        "ask": "How are you doing|How was your day|What are you up to {time}|Did you get home okay|"
        "Have you heard from {friend}|What time does it start|Where are you now|Is everything all right|"
        "What do you think|How did it go with {friend}|Are you coming {time}|Who else is coming",
        "remark": "I can't wait|See you soon|Let me know|Talk to you later|I will tell you more {time}|"
        "You would love it|It was so much fun|I am really tired now|Say hi to {friend} from me|It took forever|"
        "I still can't believe it|Not bad at all|We should do it again|I will let you know {time}|Hope you are well|"
        "Have a good one|Love you",
        "feeling": "I am so happy today|I am a bit stressed|What a day|I am really bored|Best day ever|"
        "I did not sleep much|I am so proud of {friend}|I have a headache|Feeling much better now|I am starving",
        "tail": "what do you think|just so you know|to be honest|as always|if that is okay with you|believe it or not|"
        "like {friend} said|you know what i mean|for the first time this year|which is good news",
        # {about}, {friend}, {place} and {habit} differ between people, so they are not here.
    }.items()
}

TOPICS: dict[str, tuple[tuple[str, ...], dict[str, tuple[str, ...]]]] = {
    topic: (_alternatives(sentences), {name: _alternatives(text) for name, text in slots.items()})
    for topic, (sentences, slots) in {
        "football": (
            "We {won} the match {score}|Did you watch the game last night|{player} scored in the last minute|"
            "The referee was {bad} again|Training starts {time} at the stadium|I got two tickets for the {cup} final|"
            "The goalkeeper saved a penalty|Our defence was {bad} in the second half|"
            "{friend} is injured so i play on the left|The coach wants me to play as a {position}|"
            "We need one more player for {day}|They should sell the {position} and buy a better {position}",
            {
                "won": "won|lost|drew|nearly lost|deserved to win",
                "score": "two one|three nil|one all|by four goals|on penalties",
                "bad": "terrible|awful|a joke|half asleep|not good enough|a disaster",
                "player": "our striker|the captain|the new kid|the left back|number nine",
                "cup": "cup|league|charity|youth|regional",
                "position": "striker|midfielder|defender|goalkeeper|winger",
            },
        ),
        "cooking": (
            "I am making {dish} for dinner|Do we have any {ingredient} left|The {dish} needs more {ingredient}|"
            "Put the {dish} in the oven for forty minutes|I found a new recipe for {dish}|"
            "Can you buy {ingredient} and {ingredient}|Stir the {ingredient} until it is {cooked}|"
            "My {dish} came out {cooked}|{friend} wants the recipe for my {dish}|"
            "Add a spoon of {ingredient} and let it simmer|We are out of {ingredient} again|"
            "First fry the {ingredient} with the {ingredient}",
            {
                "dish": "vegetable soup|chicken curry|lasagne|apple pie|fried rice|mushroom risotto|lentil stew|"
                "pancakes|roast potatoes|banana bread|fish tacos|tomato salad",
                "ingredient": "garlic|onions|butter|flour|ginger|olive oil|basil|eggs|cream|cheese|pepper|lemon|rice",
                "cooked": "golden|soft|a little burnt|perfect|too salty|smooth|crispy|dry",
            },
        ),
        "work": (
            "The meeting is moved to {hour}|I have to finish the {document} before {day}|"
            "My boss wants the {document} {time}|Can you send me the {document} again|"
            "The client {client} the {document}|I am in a call until {hour}|The {machine} is broken again|"
            "{friend} is on holiday so i have to do the {document}|We have a deadline on {day}|"
            "They want to hire two more {job}|I asked for a raise and they {client} it|The new {job} starts on {day}|"
            "Please have a look at the {document} before the meeting",
            {
                "document": "report|budget|presentation|contract|invoice|proposal|schedule|spreadsheet|agenda|draft",
                "client": "liked|rejected|approved|wants to change|did not read|signed|forgot about",
                "machine": "printer|projector|coffee machine|server|lift|heating",
                "job": "engineers|designers|interns|accountants|managers|assistants",
            },
        ),
        "family": (
            "The kids are {kids}|Can you pick up the kids from {school} {time}|{child} has a {illness} again|"
            "Grandma is coming to visit {time}|{child} lost another tooth|"
            "The teacher says {child} is doing {well} in {subject}|Don't forget the parents evening on {day}|"
            "Mum wants to know if you are coming on {day}|Dad is fixing the {broken}|"
            "{child} needs new {clothes} for school|We have to take {child} to the dentist on {day}|"
            "The baby did not sleep all night|{child} was invited to a birthday party on {day}",
            {
                "kids": "asleep|fighting again|hungry|at grandma's house|doing their homework|watching cartoons|"
                "in the bath",
                "school": "school|nursery|swimming|the playground|music class|practice",
                "child": "the little one|my daughter|my son|the eldest|the youngest",
                "illness": "cold|fever|cough|sore throat|stomach ache|rash",
                "well": "really well|much better|not so well|great",
                "subject": "maths|reading|history|spelling|science|art",
                "broken": "fence|bike|tap|roof|washing machine|shed door",
                "clothes": "shoes|trousers|boots|a coat|a school bag",
            },
        ),
        "gaming": (
            "Are you online {time}|I finally beat the {boss}|We need a {role} for the raid|Level {level} is impossible|"
            "My {gear} dropped from the {boss}|The new patch ruined my {role}|The servers are down again|"
            "Join the party chat when you are on|I got {rank} last night|My {hardware} is too slow for this game|"
            "Add {friend} to the team and queue up|I only need one more key for the {boss}|"
            "He plays {role} and never heals anyone",
            {
                "boss": "dragon|final boss|ice giant|lich king|spider queen|twin brothers",
                "role": "healer|tank|mage|archer|rogue|paladin",
                "level": "twelve|twenty|thirty five|fifty|ninety nine",
                "gear": "legendary sword|shield|magic ring|golden helmet|rare mount",
                "rank": "promoted to gold|a ten win streak|stuck in silver|my best score|banned for an hour",
                "hardware": "laptop|graphics card|connection|controller|headset",
            },
        ),
        "garden": (
            "The {plant} are finally {growth}|I planted {plant} behind the shed|It is too {weather} for the {plant}|"
            "Something is eating my {plant}|Can you water the {plant} {time}|The {plant} need more {care}|"
            "I dug up the {plant} and found {pest}|We have more {plant} than we can eat|"
            "{friend} gave me some seeds for {plant}|I need to cut the grass before it rains|"
            "There are {pest} all over the {plant}|Move the {plant} into the greenhouse before the frost",
            {
                "plant": "tomatoes|roses|beans|strawberries|tulips|carrots|pumpkins|sunflowers|herbs|cucumbers|peas",
                "growth": "growing|in bloom|ripe|dying|coming up|ready to pick",
                "weather": "dry|wet|cold|windy|hot|early in the year",
                "care": "water|sun|compost|space|shade|patience",
                "pest": "snails|slugs|worms|beetles|mice|ants",
            },
        ),
        "music": (
            "We are playing at {venue} on {day}|The {instrument} is out of tune|Have you heard the new {genre} album|"
            "I wrote a new {part} for the second song|Band practice is at {hour} on {day}|"
            "{friend} broke a string on the {instrument}|Can you bring the {instrument} and the cables|"
            "The {part} is too {tempo}|I can't get that {part} out of my head|The crowd at {venue} was amazing|"
            "I am learning the {instrument} from a video|Turn the {instrument} down in the {part}",
            {
                "venue": "the jazz club|the festival|the old factory|a wedding|the open mic|the student bar",
                "instrument": "guitar|bass|piano|violin|drum kit|trumpet|microphone",
                "genre": "jazz|metal|folk|techno|soul|punk|classical",
                "part": "chorus|bridge|intro|solo|verse|melody",
                "tempo": "slow|fast|loud|quiet|long|complicated",
            },
        ),
        "travel": (
            "We landed in {city} {landing}|The flight to {city} is delayed by {delay}|I booked a {room} near the beach|"
            "The hotel in {city} was {hotel}|Don't forget your {pack}|We are taking the night train to {city}|"
            "You have to see the {sight} in {city}|They lost my {pack} at the airport|How long do you stay in {city}|"
            "It is thirty degrees in {city}|I need a visa for {city}|We walked all the way to the {sight}",
            {
                "city": "lisbon|rome|berlin|tokyo|istanbul|nairobi|lima|oslo|prague|marrakesh",
                "landing": "an hour ago|safely|in the rain|at midnight|this morning",
                "delay": "two hours|forty minutes|a whole day|three hours",
                "room": "small apartment|double room|cheap hostel|cabin|house",
                "hotel": "lovely|filthy|full|right next to the airport|better than the pictures",
                "pack": "passport|suitcase|sunscreen|boarding pass|swimsuit|camera|travel adapter",
                "sight": "old town|cathedral|castle|lighthouse|waterfall|night market",
            },
        ),
        "fitness": (
            "I ran {distance} this morning|My {body} hurts after the gym|Leg day is on {day}|"
            "I signed up for the {race}|Let's go for a run {time}|{distance} in under {minutes} is my goal|"
            "The trainer says i should rest my {body}|I did {sets} of {exercise}|No more {snack} until the {race}|"
            "My watch says i slept four hours|{friend} can do more {exercise} than me|"
            "Stretch your {body} before you do {exercise}",
            {
                "distance": "five kilometres|ten kilometres|three miles|a half marathon|twice around the lake",
                "body": "knee|back|shoulder|left ankle|whole body|calves",
                "race": "marathon|city run|triathlon|charity race|relay",
                "minutes": "twenty five minutes|fifty minutes|an hour|two hours",
                "sets": "three sets|fifty|twenty|five rounds|one last set",
                "exercise": "push ups|squats|pull ups|burpees|sit ups|lunges",
                "snack": "chocolate|crisps|cake|beer|pizza|biscuits",
            },
        ),
        "pets": (
            "The {pet} {mischief}|I have to take the {pet} to the vet on {day}|The {pet} is sleeping on my {spot}|"
            "Can you feed the {pet} {time}|We are out of {food}|The {pet} is afraid of the {scary}|"
            "My {pet} learned to {trick}|Who is walking the {pet} {time}|The vet says the {pet} is too {state}|"
            "The {pet} hates the new {food}|{friend} wants to adopt a {pet}|The {pet} brought a mouse to my {spot}",
            {
                "pet": "dog|cat|puppy|kitten|rabbit|parrot|hamster",
                "mischief": "ate my slipper|ran away again|barked all night|broke the vase|jumped on the table|"
                "chewed the sofa",
                "spot": "keyboard|pillow|lap|bed|clean laundry",
                "food": "cat food|dry food|treats|hay|canned tuna",
                "scary": "vacuum cleaner|thunder|neighbour's dog|doorbell|fireworks",
                "trick": "sit|roll over|open the fridge|give a paw|talk",
                "state": "fat|thin|old to travel|nervous|young for that",
            },
        ),
        "study": (
            "The exam is on {day}|I have not started the {paper} yet|The professor {marked} my {paper}|"
            "Can i borrow your notes on {course}|I failed {course} again|Our group has to present {course} on {day}|"
            "The library closes at {hour}|I need {grade} to pass {course}|{friend} dropped out of {course}|"
            "The lecture on {course} was {lecture}|I wrote two thousand words of the {paper} last night|"
            "Is the {paper} due on {day} or on {day}",
            {
                "paper": "essay|thesis|lab report|assignment|homework|reading",
                "marked": "liked|hated|lost|has not marked|extended the deadline for",
                "course": "statistics|chemistry|philosophy|linear algebra|economics|biology|linguistics|modern history",
                "grade": "sixty percent|at least a b|forty points|full marks",
                "lecture": "cancelled|so boring|actually interesting|impossible to follow|full",
            },
        ),
        "repairs": (
            "The {part_of_house} is leaking again|I need a new {tool} to fix the {part_of_house}|"
            "The plumber comes on {day}|My car makes a {noise} noise when i {driving}|"
            "The garage wants {price} for the {car_part}|Can i borrow your {tool} {time}|"
            "I painted the {part_of_house} {colour}|The {car_part} has to be replaced|I cut my finger with the {tool}|"
            "Measure the {part_of_house} before you buy the paint|{friend} knows how to change a {car_part}|"
            "We are having the {part_of_house} done in {colour}",
            {
                "part_of_house": "kitchen sink|bathroom ceiling|front door|garage roof|hallway|boiler|balcony",
                "tool": "drill|hammer|ladder|saw|screwdriver|wrench",
                "noise": "strange|grinding|whistling|loud|clicking",
                "driving": "brake|turn left|start the engine|change gear|accelerate",
                "price": "three hundred|way too much|ninety|almost a thousand",
                "car_part": "clutch|exhaust|battery|tyre|timing belt|windscreen",
                "colour": "dark green|white|light grey|yellow|navy blue",
            },
        ),
    }.items()
}

HABITS = _alternatives(
    "Football practice|My yoga class|Choir rehearsal|The book club|Swimming with {friend}|My shift|"
    "Dinner with {friend}|The language course|Poker night|My piano lesson|The farmers market|"
    "Sunday lunch with {friend}|The board meeting|Climbing with {friend}|The pub quiz|Volunteering"
)
"""Weekly activities; the generator adds a day and a place."""

SHORTENINGS = (
    ("you are", "ur"),
    ("you", "u"),
    ("tomorrow", "tmrw"),
    ("tonight", "tonite"),
    ("going to", "gonna"),
    ("want to", "wanna"),
    ("have to", "gotta"),
    ("please", "pls"),
    ("okay", "ok"),
    ("thanks", "thx"),
    ("really", "rly"),
    ("i am", "i'm"),
    ("i will", "i'll"),
    ("it is", "it's"),
    ("we are", "we're"),
    ("minutes", "min"),
)
"""Long and short spellings; each person uses some of the short ones consistently."""

CLOSINGS = ("haha", "lol", "xx", "x", "mate", "dear", "bro", "love", "anyway", "ok bye")
"""Endings that some people add to messages."""
