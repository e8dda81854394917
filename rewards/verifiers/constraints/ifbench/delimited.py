"""The `custom:csv_` instructions: tables with given columns, rows and quotation marks."""

import csv
import io
import re

from rewards.verifiers.constraints.check import Parameters, Response, instruction
from rewards.verifiers.constraints.ifbench.spelling import unfenced
from rewards.verifiers.constraints.ifbench.table import Cell, rows

_CITY = ["ID", "Country", "City", "Year", "Count"]
_PRODUCT = ["ProductID", "Category", "Brand", "Price", "Stock"]
_STUDENT = ["StudentID", "Subject", "Grade", "Semester", "Score"]


def _table(response: Response, delimiter: str, header: list[str]) -> list[list[Cell]]:
    """The rows, the header first; none if they are not as wide as it or say nothing.

    A code fence round the whole response does not count.
    """
    found = rows(unfenced(response.text), delimiter) or [[]]
    if [cell.content for cell in found[0]] != header:
        return []
    full = all(len(row) == len(header) and any(cell.content for cell in row) for row in found)
    return found if full else []


def _public_table(text: str, delimiter: str = ",") -> list[list[str]]:
    """Rows as the public implementation reads them; none where it raises."""
    try:
        return list(csv.reader(io.StringIO(text), delimiter=delimiter))
    except csv.Error:
        return []


@instruction(
    "custom:csv_city",
    Parameters,
    "write comma-delimited data: the header ID,Country,City,Year,Count and 7 rows",
)
def csv_city(response: Response, _: Parameters) -> bool:
    return len(_table(response, ",", _CITY)) == 8


@csv_city.upstream
def _csv_city(response: Response, _: Parameters) -> bool:
    found = _public_table(response.text)
    return len(found) == 8 and found[0] == _CITY and all(len(row) == 5 for row in found)


_SPECIAL = re.compile(r"[^\w\s]")
_PLAIN_NUMBER = re.compile(r"[+-]?[\d.,]+")


@instruction(
    "custom:csv_special_character",
    Parameters,
    "write comma-delimited data: the header ProductID,Category,Brand,Price,Stock and 14 rows, one "
    "field in double quotes and with a special character",
)
def csv_special_character(response: Response, _: Parameters) -> bool:
    """The marks of a number are not special."""
    found = _table(response, ",", _PRODUCT)
    return len(found) == 15 and any(_is_special(cell) for row in found[1:] for cell in row)


def _is_special(cell: Cell) -> bool:
    plain = _PLAIN_NUMBER.fullmatch(cell.content)
    return cell.quoted and not plain and bool(_SPECIAL.search(cell.content))


_PUBLIC_PRODUCT = re.compile(r",[ \t]*".join(f'(?:{name}|"{name}")' for name in _PRODUCT))
_PUBLIC_STUDENT = re.compile(r"\t *".join(f'(?:{name}|"{name}")' for name in _STUDENT))


@csv_special_character.upstream
def _csv_special_character(response: Response, _: Parameters) -> bool:
    """Rows after the first with a special field are not looked at."""
    if not _PUBLIC_PRODUCT.fullmatch(response.lines[0].strip()):
        return False
    found = _public_table(response.text.replace('"', '"""'))
    for row in found[1:] if len(found) == 15 else []:
        if len(row) != 5:
            return False
        if any(re.match(r'".*[^\d\w\s].*"', cell) for cell in row):
            return True
    return False


@instruction(
    "custom:csv_quotes",
    Parameters,
    "write tab-delimited data: the header StudentID, Subject, Grade, Semester, Score and 3 rows, "
    "each field in double quotes",
)
def csv_quotes(response: Response, _: Parameters) -> bool:
    found = _table(response, "\t", _STUDENT)
    return len(found) == 4 and all(cell.quoted for row in found for cell in row)


@csv_quotes.upstream
def _csv_quotes(response: Response, _: Parameters) -> bool:
    """A blank field raises there, and fails here."""
    if not _PUBLIC_STUDENT.fullmatch(response.lines[0].strip()):
        return False
    found = _public_table(response.text.replace('"', '"""'), "\t")
    if len(found) != 4 or any(len(row) != 5 for row in found):
        return False
    cells = [cell.strip() for row in found for cell in row]
    return all(cell[:1] == '"' and cell[-1:] == '"' for cell in cells)
