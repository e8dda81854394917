"""Language detection: it is the same each time, and what has no language is in none."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rewards.verifiers.constraints.language import CODES, is_english, is_in, langdetected

SENTENCES = {
    "ar": "مشى الرجل العجوز ببطء في الغابة وفكر في طفولته.",
    "bg": "Старецът вървеше бавно през гората и мислеше за детството си.",
    "bn": "বৃদ্ধ লোকটি ধীরে ধীরে বনের মধ্য দিয়ে হাঁটছিলেন।",
    "de": "Die Photosynthese wandelt Licht in chemische Energie um.",
    "en": "The old man walked slowly through the forest and thought about his childhood.",
    "es": "La fotosíntesis convierte la luz en energía química.",
    "fa": "پیرمرد به آرامی در جنگل راه می‌رفت و به کودکی خود فکر می‌کرد.",
    "fi": "Vanha mies käveli hitaasti metsän läpi ja ajatteli lapsuuttaan.",
    "fr": "La photosynthèse convertit la lumière en énergie chimique.",
    "gu": "સુપ્રભાત, આજે તમે કેમ છો?",
    "he": "האיש הזקן הלך לאט ביער וחשב על ילדותו.",
    "hi": "बूढ़ा आदमी धीरे-धीरे जंगल में चला और अपने बचपन के बारे में सोचा।",
    "it": "Il vecchio camminava lentamente nel bosco e pensava alla sua infanzia.",
    "ja": "老人は森の中をゆっくり歩き、子供の頃を思い出した。",
    "kn": "ಶುಭೋದಯ, ಇಂದು ನೀವು ಹೇಗಿದ್ದೀರಿ?",
    "ko": "노인은 숲속을 천천히 걸으며 어린 시절을 생각했다.",
    "ml": "സുപ്രഭാതം, ഇന്ന് നിങ്ങൾക്ക് എങ്ങനെയുണ്ട്?",
    "mr": "म्हातारा माणूस हळूहळू जंगलातून चालत होता आणि आपल्या बालपणाचा विचार करत होता.",
    "ne": "बूढो मानिस बिस्तारै जङ्गलमा हिँड्यो र आफ्नो बाल्यकालको बारेमा सोच्यो।",
    "pa": "ਸ਼ੁਭ ਸਵੇਰ, ਅੱਜ ਤੁਸੀਂ ਕਿਵੇਂ ਹੋ?",
    "pl": "Stary człowiek szedł powoli przez las i myślał o swoim dzieciństwie.",
    "pt": "O velho caminhou devagar pela floresta e pensou na sua infância.",
    "ru": "Старик медленно шёл по лесу и думал о своём детстве.",
    "sw": "Mzee alitembea polepole msituni na kufikiria utoto wake.",
    "ta": "காலை வணக்கம், இன்று எப்படி இருக்கிறீர்கள்?",
    "te": "శుభోదయం, ఈ రోజు మీరు ఎలా ఉన్నారు?",
    "th": "สวัสดีตอนเช้า วันนี้คุณเป็นอย่างไรบ้าง",
    "uk": "Старий повільно йшов лісом і думав про своє дитинство.",
    "ur": "بوڑھا آدمی آہستہ آہستہ جنگل میں چل رہا تھا اور اپنے بچپن کے بارے میں سوچ رہا تھا۔",
    "vi": "Ông lão đi chậm rãi qua khu rừng và nghĩ về tuổi thơ của mình.",
}


@pytest.mark.parametrize("language", SENTENCES)
def test_a_sentence_is_in_its_language_and_no_unlike_one(language: str) -> None:
    text = SENTENCES[language]
    assert is_in(text, language)
    assert [other for other in SENTENCES if other != language and is_in(text, other)] in (
        [],
        ["nl"],
    )


@pytest.mark.parametrize(
    "text",
    [
        "Hello world",
        "THE TRAIN LEAVES AT NOON.",
        "YES.",
        "BIRDS SING.",
        "i like tea.",
        "We sail at dawn.",
    ],
)
def test_short_english_is_english_in_any_case(text: str) -> None:
    assert all(is_english(form) for form in (text, text.upper(), text.lower()))


@pytest.mark.parametrize("text", ["12345 67890", "...", "🎉🎉", "\x00\x01", "\ud800", "\ufffe"])
def test_text_without_a_language_is_in_none(text: str) -> None:
    assert not is_english(text)
    assert not any(is_in(text, code) for code in CODES)


def test_a_text_half_in_another_language_is_in_neither() -> None:
    german = "Der alte Mann ging langsam durch den Wald und dachte an seine Kindheit."
    text = f"{SENTENCES['en']} {german} " * 3
    assert not is_in(text, "en")
    assert not is_in(text, "de")


def test_a_quotation_in_another_language_does_no_harm() -> None:
    assert is_in(SENTENCES["en"] * 3 + " He said: guten Tag!", "en")


def test_equal_texts_get_equal_answers_from_langdetect() -> None:
    assert {langdetected("Hello world") for _ in range(20)} == {"en"}


@settings(deadline=None)
@given(st.text(max_size=40))
def test_any_text_has_an_answer(text: str) -> None:
    assert is_in(text, "en") in (True, False)
