"""Whether requests are traced: the standard variables of OpenTelemetry name a collector, or none.

Nothing of OpenTelemetry is imported unless they name one.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from hasse.models.errors import pip_install
from hasse.service.runtime.logs import event

if TYPE_CHECKING:
    from hasse.service.runtime.traces import Traces

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_HTTP = "http/protobuf"


def traces_of(variables: Mapping[str, str] = os.environ) -> Traces | None:
    """Return what sends traces to the collector of the variables; None where they name none.

    Where they name one that cannot be used, the log says why.
    """
    if not any(variables.get(name) for name in _ENDPOINTS):
        return None
    exporter = variables.get("OTEL_TRACES_EXPORTER") or "otlp"
    if exporter == "none" or variables.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return None
    protocol = next(filter(None, map(variables.get, _PROTOCOLS)), _HTTP)
    try:
        if (exporter, protocol) != ("otlp", _HTTP):
            raise ValueError(
                f"traces are sent by otlp over {_HTTP}, not {exporter} over {protocol}"
            )
        from hasse.service.runtime.traces import Traces

        return Traces.sent()
    except ImportError:
        reason = f"the extra is missing: {pip_install('traces')}"
    except (ValueError, OSError) as error:  # a variable is no number, say
        reason = str(error)
    event("not traced", logging.WARNING, reason=reason)
    return None
