"""Blocks of events as the reader gives them without a scanner."""

from tracetui.reading.blocks import Block, BlockReader
from tracetui.reading.decode import Event
from tracetui.reading.scanner.scanned_events import DecodedEvents


def objects_of(block: Block) -> list[Event]:
    """The events of a block that was read in Python."""
    assert isinstance(block.events, DecodedEvents)
    return block.events.objects


def decoded_blocks(reader: BlockReader) -> list[Block]:
    """The blocks of a reader without a scanner."""
    return [block for block in reader if isinstance(block, Block)]
