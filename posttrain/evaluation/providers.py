"""Names of providers and of their models, and whether a text claims to be of one.

Always holds: names are whole words in any case and script; a name that belongs to `own` is never
another's. One that the question brought up is no claim where the sentence denies it.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence

PROVIDERS: dict[str, tuple[str, ...]] = {
    "OpenAI": ("openai", "chatgpt", "gpt", "gpt-3", "gpt-3.5", "gpt-4", "gpt-4o", "gpt-5",
               "опенаи", "чатгпт", "오픈ai", "オープンai", "챗gpt"),
    "Anthropic": ("anthropic", "claude", "антропик", "клод", "クロード", "클로드"),
    "Google": ("google", "google deepmind", "deepmind", "gemini", "gemma", "palm 2",
               "гугл", "谷歌", "グーグル", "구글", "جوجل"),
    "Meta": ("meta ai", "meta platforms", "facebook", "llama", "llama 2", "llama 3", "лама 3"),
    "Mistral": ("mistral", "mistral ai", "mixtral", "мистраль"),
    "Alibaba": ("alibaba", "alibaba cloud", "qwen", "tongyi", "tongyi qianwen", "通义千问", "阿里",
                "阿里巴巴", "阿里云", "千问"),
    "DeepSeek": ("deepseek", "deep seek", "深度求索"),
    "Microsoft": ("microsoft", "copilot", "bing chat", "phi-3", "phi-4", "微软"),
    "xAI": ("xai", "grok"),
    "Cohere": ("cohere", "command r", "command-r"),
    "Baidu": ("baidu", "ernie bot", "文心一言", "百度"),
    "Yandex": ("yandex", "yandexgpt", "яндекс"),
    "Sber": ("gigachat", "гигачат", "сбер"),
    "Moonshot": ("moonshot ai", "kimi", "月之暗面"),
    "Zhipu": ("zhipu", "zhipu ai", "chatglm", "智谱", "智谱清言"),
    "Tencent": ("tencent", "hunyuan", "腾讯", "混元"),
    "ByteDance": ("bytedance", "doubao", "豆包", "字节跳动"),
    "Amazon": ("amazon", "alexa", "amazon nova"),
    "Apple": ("siri", "apple intelligence"),
    "NVIDIA": ("nvidia", "nemotron"),
    "IBM": ("ibm", "watsonx"),
    "AllenAI": ("allen institute for ai", "ai2", "olmo", "tulu"),
    "Hugging Face": ("hugging face", "smollm", "zephyr"),
    "Perplexity": ("perplexity",),
    "TII": ("technology innovation institute",),
    "AI21": ("ai21", "jamba"),
    "Inflection": ("inflection ai",),
}  # fmt: skip
"""Provider -> names it and its models go by; those that are everyday words alone are left out."""

_DENIALS = (
    "not", "no", "isn't", "am not", "never", "neither", "nor", "nicht", "kein", "keine", "nein",
    "ne", "pas", "non", "aucun", "ni", "nunca", "ningún", "não", "нет", "не", "不", "不是", "没有",
    "ない", "ません", "いいえ", "아니", "아닙니다", "ليس", "لست", "لا", "nie", "niet", "geen",
    "betg",
)  # fmt: skip
_SENTENCE = re.compile(r"(?<=[.!?。！？])\s+|(?<=[。！？])|\n+")


def others_named(text: str, question: str, own: Sequence[str]) -> list[str]:
    """Providers that `text` names, sorted, but for those the question named and it denies."""
    asked = set(_named(question, own))
    claimed: set[str] = set()
    for sentence in filter(None, _SENTENCE.split(_plain(text))):
        found = set(_named(sentence, own))
        claimed |= found - asked if _denies(sentence) else found
    return sorted(claimed)


def names_own(text: str, own: Sequence[str]) -> bool:
    """Whether `text` says a name of its own."""
    return any(_says(_plain(text), _plain(name)) for name in own)


def _named(text: str, own: Sequence[str]) -> Iterator[str]:
    """Providers with a name in `text`, which is not part of a name of `own`."""
    rest = _plain(text)
    for name in own:
        rest = _word(_plain(name)).sub(" ", rest)
    mine = {_plain(name) for name in own}
    for provider, names in PROVIDERS.items():
        if any(name not in mine and _says(rest, name) for name in (provider.lower(), *names)):
            yield provider


def _denies(sentence: str) -> bool:
    return any(_says(sentence, word) for word in _DENIALS)


def _says(text: str, name: str) -> bool:
    return _word(name).search(text) is not None


def _word(name: str) -> re.Pattern[str]:
    """`name` as a word; Cyrillic ones may have an ending, and Chinese, say, has no spaces."""
    if any(ord(char) >= 0x2E80 for char in name):
        return re.compile(re.escape(name))
    ending = r"\w{0,3}" if len(name) >= 4 and "\u0400" <= name[0] <= "\u04ff" else ""
    return re.compile(rf"(?<!\w){re.escape(name)}{ending}(?!\w)")


def _plain(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold().replace("’", "'")
