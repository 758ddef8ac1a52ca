"""Traces requests if the standard variables of OpenTelemetry name a collector.

OpenTelemetry is imported only in that case.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from hasse.models.errors import pip_install
from hasse.service.telemetry.logs import event

if TYPE_CHECKING:
    from hasse.service.telemetry.traces import Traces

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_HTTP = "http/protobuf"


def traces_of(variables: Mapping[str, str] = os.environ) -> Traces | None:
    """Return the traces of a service, or None if the variables name no collector.

    For a collector that cannot be used, None is returned and the reason is logged.
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
        from hasse.service.telemetry.traces import Traces

        return Traces.to_collector()
    except ImportError:
        reason = f"the extra is missing: {pip_install('traces')}"
    except (ValueError, OSError) as error:  # for example, a variable is not a number
        reason = str(error)
    event("not traced", logging.WARNING, reason=reason)
    return None
