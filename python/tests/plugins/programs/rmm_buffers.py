# SPDX-License-Identifier: Apache-2.0
"""RMM over Quarry's pool, or Quarry's pool over RMM.

usage: rmm_buffers.py DIRECTION [TRACE]      resource, upstream
"""

import json
import sys

import rmm

import quarry.rmm

result: dict[str, object] = {}
if sys.argv[1] == "resource":
    options = {"record": sys.argv[2], "call_sites": True} if len(sys.argv) > 2 else {}
    resource = quarry.rmm.use(capacity="1GiB", **options)
    statistics = rmm.mr.StatisticsResourceAdaptor(resource)
    stream = rmm.pylibrmm.stream.Stream()
    data = bytes(range(256)) * 1000
    buffers = [rmm.DeviceBuffer.to_device(data, stream) for _ in range(10)]
    result["is equal"] = all(buffer.copy_to_host().tobytes() == data for buffer in buffers)
    result["in use"] = quarry.rmm.counts().allocations_in_use
    address = statistics.allocate(1 << 20, stream)
    result["adaptor's bytes"] = statistics.allocation_counts.current_bytes
    statistics.deallocate(address, 1 << 20, stream)
    try:
        rmm.DeviceBuffer(size=2 << 30)
    except MemoryError as failed:
        result["failure"] = [str(failed), quarry.rmm.last_error()]
    del buffers
    result["in use at the end"] = quarry.rmm.counts().allocations_in_use
else:
    upstream = rmm.mr.StatisticsResourceAdaptor(rmm.mr.CudaAsyncMemoryResource())
    quarry.rmm.use_upstream(upstream)
    import cupy

    import quarry.cupy

    quarry.cupy.use()
    result["sum"] = float(cupy.arange(1000.0).sum())
    result["upstream's bytes"] = upstream.allocation_counts.current_bytes
    result["reserved"] = quarry.rmm.counts().reserved
    quarry.rmm.release()
    result["upstream's bytes at the end"] = upstream.allocation_counts.current_bytes
    result["reserved at the end"] = quarry.rmm.counts().reserved
result["audit"] = quarry.rmm.audit()
result["invalid_frees"] = quarry.rmm.counts().invalid_frees
print(json.dumps(result))
