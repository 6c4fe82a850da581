import atexit
from collections.abc import Iterable
from functools import cache
from wsgiref.types import StartResponse, WSGIEnvironment

from bolide.client import BolideError, Message
from bolide.client.blocking import Producer


@cache
def producer(namesrv: str = "") -> Producer:
    made = Producer("orders", namesrv)
    made.start()
    atexit.register(made.close)
    return made


def application(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
    """In Django this is the body of a view, in Flask the body of a route."""
    body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
    headers = [("Content-Type", "text/plain")]
    try:
        result = producer(environ.get("namesrv", "")).send(Message("Orders", body, tags="coffee"))
    except BolideError as error:
        start_response("503 Service Unavailable" if error.retriable else "400 Bad Request", headers)
        return [str(error).encode()]
    start_response("202 Accepted", headers)
    return [result.message_id.encode()]


if __name__ == "__main__":
    from wsgiref.simple_server import make_server

    make_server("127.0.0.1", 8000, application).serve_forever()
