"""Tools that function-calling probes offer, with what is asked of each in words and in arguments.

Always holds: a request says every argument that its call needs in the very form it must have.
"""

import random
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

Arguments = dict[str, list[Any]]
"""Argument -> the values that are right."""

_CITIES = ("Bern", "Basel", "Lugano", "Geneva", "Chur", "Oslo", "Lisbon", "Kyoto", "Nairobi")
_NAMES = ("Anna", "Ben", "Carla", "David", "Elif", "Farid", "Greta", "Hugo")
_CURRENCIES = ("CHF", "EUR", "USD", "JPY", "NOK")
_TITLES = ("Dune", "Emma", "Heidi", "Ulysses", "Middlemarch")


class Ask(NamedTuple):
    """A request in words, a clause that fits after a verb, and the call it needs."""

    text: str
    arguments: Arguments
    optional: Arguments


class Tool(NamedTuple):
    """A tool's declaration and requests for it; `output` is what it answers to one."""

    declaration: Mapping[str, Any]
    ask: Callable[[random.Random], Ask]
    output: str

    @property
    def name(self) -> str:
        """By which it is called."""
        return str(self.declaration["name"])


def _declared(
    name: str, description: str, required: Mapping[str, str], optional: Mapping[str, Any] = {}
) -> dict[str, Any]:
    """A declaration; `required` and `optional` map an argument to its type or schema."""
    properties = {
        key: {"type": schema} if isinstance(schema, str) else dict(schema)
        for key, schema in {**required, **optional}.items()
    }
    parameters = {"type": "object", "properties": properties, "required": sorted(required)}
    return {"name": name, "description": description, "parameters": parameters}


_UNIT = {"type": "string", "enum": ["celsius", "fahrenheit"], "default": "celsius"}


def _weather(draw: random.Random) -> Ask:
    city = draw.choice(_CITIES)
    return Ask(f"tell me the weather in {city}", {"city": [city]}, {"unit": ["celsius"]})


def _convert(draw: random.Random) -> Ask:
    amount, (one, other) = draw.randint(2, 900), draw.sample(_CURRENCIES, 2)
    given: Arguments = {"amount": [amount], "source": [one], "target": [other]}
    return Ask(f"convert {amount} {one} to {other}", given, {})


def _timer(draw: random.Random) -> Ask:
    minutes = draw.randint(2, 90)
    return Ask(f"set a timer of {minutes} minutes", {"minutes": [minutes]}, {"label": [""]})


def _message(draw: random.Random) -> Ask:
    name, hour = draw.choice(_NAMES), draw.randint(8, 20)
    text = f"I come at {hour}"
    return Ask(f'send {name} the message "{text}"', {"to": [name], "text": [text]}, {})


def _book(draw: random.Random) -> Ask:
    title, copies = draw.choice(_TITLES), draw.randint(2, 9)
    return Ask(f"order {copies} copies of the book {title}",
               {"title": [title], "copies": [copies]}, {"gift": [False]})  # fmt: skip


def _distance(draw: random.Random) -> Ask:
    one, other = draw.sample(_CITIES, 2)
    return Ask(f"look up the distance from {one} to {other}",
               {"start": [one], "end": [other]}, {"unit": ["km"]})  # fmt: skip


def _root(draw: random.Random) -> Ask:
    number = draw.randint(2, 999)
    return Ask(f"compute the square root of {number}", {"number": [number]}, {})


TOOLS: tuple[Tool, ...] = (
    Tool(_declared("get_weather", "Weather in a city now.", {"city": "string"}, {"unit": _UNIT}),
         _weather, '{"sky": "clear"}'),
    Tool(_declared("convert_currency", "Convert an amount of money between currencies (ISO 4217).",
                   {"amount": "number", "source": "string", "target": "string"}),
         _convert, '{"amount": 41.5}'),
    Tool(_declared("set_timer", "Start a timer.", {"minutes": "integer"},
                   {"label": {"type": "string", "default": ""}}), _timer, '{"started": true}'),
    Tool(_declared("send_message", "Send a text to a person.", {"to": "string", "text": "string"}),
         _message, '{"sent": true}'),
    Tool(_declared("order_book", "Order copies of a book.",
                   {"title": "string", "copies": "integer"},
                   {"gift": {"type": "boolean", "default": False}}), _book, '{"ordered": true}'),
    Tool(_declared("get_distance", "Distance by road between two cities.",
                   {"start": "string", "end": "string"},
                   {"unit": {"type": "string", "enum": ["km", "miles"], "default": "km"}}),
         _distance, '{"distance": 250}'),
    Tool(_declared("square_root", "Square root of a number.", {"number": "number"}),
         _root, '{"root": 3.0}'),
)  # fmt: skip

LOOKUP = _declared("find_contact", "Number of a person in the address book.", {"name": "string"})
CALL = _declared("call_number", "Call a telephone number.", {"number": "string"})

UNRELATED = (
    "What does the word serendipity mean?", "Name three primary colours.",
    "Who wrote Romeo and Juliet?", "Give me a word that rhymes with house.",
    "Is a tomato a fruit?", "How many legs does a spider have?", "What is the opposite of cold?",
    "Say good morning in Italian.", "Which planet is the largest?", "What do bees make?",
)  # fmt: skip
"""Requests that no tool of `TOOLS` helps with."""

SITUATIONS: Mapping[str, tuple[str, ...]] = {
    "get_weather": ("I am about to leave in Chur. Do I need an umbrella right now?",
                    "Is it freezing in Oslo at the moment?"),
    "convert_currency": ("What are 250 NOK in CHF at today's rate?",
                         "I have 90 USD left. How many EUR do I get for them today?"),
    "get_distance": ("How many kilometres must I drive from Basel to Lugano?",
                     "Is it further by road from Bern to Geneva than 100 km?"),
    "send_message": ("Let Greta know that the meeting is off.", "Wish Hugo a happy birthday."),
}  # fmt: skip
"""Tool -> requests it is plainly needed for, without being asked for by name."""
