"""Parts of Textual that are not in its public API. Each has a test in tests/console/test_textual_compat.py."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from textual.app import App

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Protocol

    from textual.drivers.linux_driver import LinuxDriver
    from textual.drivers.web_driver import WebDriver
    from textual.screen import Screen
    from textual.strip import Strip

    class InputReader(Protocol):
        """The pipe from the server of a browser."""

        def __iter__(self) -> Iterator[bytes]:
            """Iterate over what arrives."""

        def close(self) -> None:
            """End the iteration."""


class QuietApp(App[int], inherit_bindings=False):
    """An app that reports no failure of the screens that it was still building when it ended."""

    def _handle_exception(self, error: Exception) -> None:
        if not is_ending(self):
            super()._handle_exception(error)


def is_ending(app: App[Any]) -> bool:
    """Return whether the app was asked to exit."""
    return app._exit


def all_screens(app: App[Any]) -> dict[str, list[Screen[Any]]]:
    """Return the stack of screens of each mode that was opened."""
    return app._screen_stacks


def strips_of(screen: Screen[Any]) -> list[Strip]:
    """Return the lines of a screen as they are drawn."""
    return screen._compositor.render_strips()


def write_through(driver: LinuxDriver, file: Any) -> None:
    """Make a driver write to another file than its stream."""
    driver._file = file


def read_through(driver: WebDriver, wrap: Callable[[InputReader], InputReader]) -> None:
    """Make a driver read its pipe through another reader."""
    driver._input_reader = wrap(driver._input_reader)  # type: ignore[assignment]  # all that Textual asks for


def before_meta(driver: WebDriver, told: Callable[[int], None]) -> None:
    """Call a function with the size of each message that is not a key, before the driver handles it."""
    handle = driver._on_meta

    def counted(packet_type: str, payload: bytes) -> None:
        told(len(payload))
        handle(packet_type, payload)

    driver._on_meta = counted  # type: ignore[method-assign]
