"""A place in an answer's tokens."""

from rewards.verifiers.math.tokens import Token, Unreadable


class Cursor:
    """Looks at the next token and takes it; never runs past the end."""

    def __init__(self, found: list[Token]) -> None:
        self.tokens = found
        self.at = 0
        self.depth = 0
        self.bars = 0
        self.functions = 0

    @property
    def next(self) -> Token:
        """The token at this place."""
        return self.tokens[self.at]

    def ahead(self, offset: int) -> Token:
        """The token that many places on, or the last."""
        return self.tokens[min(self.at + offset, len(self.tokens) - 1)]

    def take(self) -> Token:
        """The token at this place, which is left behind; the last stays."""
        token = self.next
        self.at += token.kind != "end"
        return token

    def sees(self, *signs: str) -> bool:
        """Whether one of these signs stands here."""
        return self.next.kind == "sign" and self.next.text in signs

    def skips(self, *signs: str) -> bool:
        """Whether one of these signs stands here; it is left behind."""
        seen = self.sees(*signs)
        if seen:
            self.take()
        return seen

    def expect(self, sign: str) -> None:
        """Leave this sign behind; Unreadable if it is not here."""
        if not self.skips(sign):
            raise Unreadable(f"{sign} is missing")

    def expect_end(self) -> None:
        """Unreadable if something is left."""
        self.skips(".")
        if self.next.kind != "end":
            raise Unreadable(f"{self.next.text} is left over")
