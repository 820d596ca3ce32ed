"""Published ports: ``python -m tests.deploy.forwarder HOST PORT:ADDRESS:PORT...``, as Docker's proxy is one."""

import asyncio
import contextlib
import sys


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while piece := await reader.read(65536):
            writer.write(piece)
            await writer.drain()
    writer.close()


async def _forward(host: str, port: int, address: str, inside: int) -> None:
    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there, back = await asyncio.open_connection(address, inside)
        except OSError:
            writer.close()
            return
        await asyncio.gather(_pump(reader, back), _pump(there, writer))

    async with await asyncio.start_server(connected, host, port) as server:
        await server.serve_forever()


async def _main(host: str, ports: list[str]) -> None:
    targets = [each.split(":") for each in ports]
    await asyncio.gather(*(_forward(host, int(port), address, int(inside)) for port, address, inside in targets))


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1], sys.argv[2:]))
