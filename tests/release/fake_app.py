"""The HTTP side of the fake endpoint."""

import asyncio
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, StreamingResponse

from tests.release.fake import CONTEXT, Fake, Refusal


def app(fake: Fake) -> FastAPI:
    """The endpoint's application."""
    served = FastAPI()

    async def body_of(request: Request) -> dict[str, Any]:
        try:
            body: dict[str, Any] = await request.json()
        except ValueError:
            raise Refusal(
                500 if fake.fault == "breaks at half a JSON" else 400, "no JSON"
            ) from None
        return body

    @served.exception_handler(Refusal)
    async def refused(request: Request, refusal: Refusal) -> JSONResponse:
        return JSONResponse({"error": {"message": str(refusal)}}, refusal.status)

    @served.get("/health")
    async def health() -> JSONResponse:
        if fake.fault == "health never comes":
            await asyncio.sleep(5)
        return JSONResponse({}, 503 if fake.fault == "not well" else 200)

    @served.get("/v1/models")
    async def models() -> Any:
        name = "another" if fake.fault == "model is not listed" else fake.model
        return {"object": "list", "data": [{"id": name, "max_model_len": CONTEXT}]}

    @served.post("/tokenize")
    async def tokenize(request: Request) -> Any:
        body = await body_of(request)
        if "messages" in body:
            ids = fake.rendered(body)
        else:
            ids = fake.encode(body["prompt"], special=body.get("add_special_tokens", True))
        pieces = fake.tokenizer.convert_ids_to_tokens(ids)
        return {"count": len(ids), "tokens": ids, "token_strs": pieces}

    @served.post("/detokenize")
    async def detokenize(request: Request) -> Any:
        body = await body_of(request)
        text = fake.tokenizer.decode(body["tokens"], clean_up_tokenization_spaces=False)
        if fake.fault == "a marker reads otherwise" and text == "<|tools_prefix|>":
            text = "<tool_call>"
        return {"prompt": text}

    @served.post("/v1/completions")
    async def completions(request: Request) -> Any:
        body = await body_of(request)
        prompt = body["prompt"]
        ids = prompt if isinstance(prompt, list) else fake.encode(prompt, special=True)
        message = [{"role": "user", "content": ""}]
        made, finish = fake.generated({**body, "messages": message}, ids)
        if fake.fault == "rendered prompts go on":
            made, finish = made * 8, "length"
        text = fake.tokenizer.decode(made, skip_special_tokens=True)
        choice = {"index": 0, "text": text, "finish_reason": finish, "prompt_token_ids": ids}
        return {"choices": [choice], "usage": fake.usage(ids, len(made)), "model": fake.model}

    @served.post("/v1/chat/completions")
    async def chat(request: Request) -> Any:
        body = await body_of(request)
        if not body.get("stream"):
            return fake.answer(body)
        fake.checked(body)
        return StreamingResponse(fake.events(body), media_type="text/event-stream")

    return served
