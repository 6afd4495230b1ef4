"""What an installation can choose, in one class: the environment before a TOML file before the defaults."""

from __future__ import annotations

import difflib
import os
import platform
import shutil
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import platformdirs
from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, ValidationError, model_validator
from pydantic_settings import BaseSettings, EnvSettingsSource, NoDecode, SettingsConfigDict
from pydantic_settings import PydanticBaseSettingsSource as Source

from vodpress.domain.failure import InvalidRequest

PREFIX = "VODPRESS_"
CONFIG = "VODPRESS_CONFIG"
CONFIG_NAME = "vodpress.toml"
_OF_THE_TESTS = "VODPRESS_TEST_"

HowMuch = Literal["sample", "whole", "none"]


def _usable_cpus() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _folder(path: Path) -> Path:
    return path.expanduser().absolute()


def _program(path: Path) -> Path:
    if path.name == str(path):  # a bare name means the one that a shell would run
        return Path(shutil.which(path) or path)
    return path.expanduser().absolute()


def _numbers(value: object) -> object:
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


def _unset(description: str, default_is: str, *, repr: bool = True) -> Any:  # noqa: A002 - the name in pydantic
    return Field(default=None, description=description, repr=repr, json_schema_extra={"default_is": default_is})


Jobs = Annotated[int, Field(ge=1, le=1024)]
Folder = Annotated[Path, AfterValidator(_folder)]
Program = Annotated[Path, AfterValidator(_program)]
Delays = Annotated[tuple[Annotated[float, Field(ge=0)], ...], NoDecode, BeforeValidator(_numbers)]


class Settings(BaseSettings):
    """Every setting. Made from keywords it reads neither the environment nor a file; `load_settings` reads both."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, env_ignore_empty=True, extra="forbid", frozen=True, hide_input_in_errors=True
    )

    home: Folder = Field(
        default_factory=lambda: Path(platformdirs.user_data_dir("vodpress", appauthor=False)),
        description="Folder of everything vodpress keeps: database, storage, scratch files, settings file.",
        json_schema_extra={"default_is": "the platform's data folder for `vodpress`"},
    )
    database_url: str | None = _unset(
        "PostgreSQL to use, as a URL or a libpq connection string.", "an embedded server below `home`", repr=False
    )
    storage_url: str | None = _unset(
        "Where objects are kept: a folder (path or `file:///…`) or `s3://bucket/prefix`.", "`storage` below `home`"
    )
    s3_endpoint: str | None = _unset("URL of an S3-compatible server.", "Amazon's")
    s3_region: str | None = _unset("S3 region.", "`AWS_REGION`, or `us-east-1`")
    s3_access_key_id: str | None = _unset(
        "S3 access key; goes with `s3_secret_access_key`.", "AWS's own environment variables or the machine's role"
    )
    s3_secret_access_key: SecretStr | None = _unset(
        "S3 secret key; goes with `s3_access_key_id`. Never logged.", "as `s3_access_key_id`"
    )
    scratch_dir: Folder | None = _unset(
        "Folder for files of running jobs; a fast local disk.", "`scratch` below `home`"
    )

    ffmpeg: Program | None = _unset(
        "The `ffmpeg` program: a path, or a name that is looked up in `PATH`.", "the one that came with vodpress"
    )
    ffprobe: Program | None = _unset("The `ffprobe` program.", "the one that came with vodpress")
    packager: Program | None = _unset("The Shaka Packager program.", "the one that came with vodpress")

    node: str = Field(
        default_factory=lambda: platform.node() or "localhost",
        min_length=1,
        max_length=255,
        description="This machine's name in `doctor` and events.",
        json_schema_extra={"default_is": "the host name"},
    )
    encode_jobs: Jobs = Field(
        default_factory=_usable_cpus,
        description="Encode and stitch jobs at once; each uses about one CPU.",
        json_schema_extra={"default_is": "the number of CPUs this process may use"},
    )
    bulk_jobs: Jobs = Field(
        default_factory=_usable_cpus,
        description="Encode and stitch jobs of bulk submissions at once; they begin only while no other one waits.",
        json_schema_extra={"default_is": "the number of CPUs this process may use"},
    )
    ingest_jobs: Jobs = Field(default=2, description="Ingest jobs at once.")
    light_jobs: Jobs = Field(default=2, description="Thumbnail and package jobs at once.")
    nice: int = Field(default=5, ge=0, le=19, description="Added to the niceness of media programs.")

    lease_seconds: float = Field(
        default=30, ge=3, le=3600, description="After this long without a sign of life a worker counts as dead."
    )
    grace_seconds: float = Field(
        default=20,
        ge=0,
        le=86_400,
        description="How long running jobs may go on at shutdown, then they are handed back.",
    )
    stall_seconds: float = Field(
        default=60, ge=1, le=86_400, description="A media program without progress for this long counts as hung."
    )
    ceiling_factor: float = Field(
        default=3,
        gt=1,
        le=1000,
        description="A media program that takes this many times its usual time counts as hung.",
    )
    job_deadline_seconds: float = Field(
        default=6 * 3600, ge=1, le=7 * 86_400, description="Longest time that one attempt of a job may take."
    )
    media_retry_delays_seconds: Delays = Field(
        default=(60, 300, 1500), max_length=100, description="Waits before the attempts of a media job after the first."
    )
    ingest_attempts: int = Field(
        default=5, ge=1, le=100, description="Attempts of an ingest job; waits as for media jobs, the last repeated."
    )
    retry_jitter: float = Field(
        default=0.1, ge=0, lt=1, description="Relative spread of waits, so that jobs do not all return together."
    )

    disk_reserve_bytes: int = Field(
        default=1 << 30, ge=0, description="Free space that must remain on the scratch disk; a job that needs it waits."
    )
    max_duration_seconds: float = Field(default=12 * 3600, gt=0, description="Longest source accepted.")
    max_pixels: int = Field(default=35_389_440, ge=256, description="Largest picture accepted (8192 × 4320).")
    max_frame_rate: float = Field(default=240, gt=0, description="Fastest source accepted, frames a second.")
    decode_check: HowMuch = Field(
        default="sample", description="How much of a source is decoded at ingest; a sample is start, middle and end."
    )
    verify_decode: HowMuch = Field(
        default="sample", description="How much of every finished rendition is decoded before it is published."
    )

    publish: str = Field(
        default="all",
        min_length=1,
        description="When a video is shown: `all` renditions, `playable` (the smallest watchable rung), or names of "
        "rungs; later ones come with later versions.",
    )
    on_exhausted: Literal["block", "error"] = Field(
        default="block",
        description="What becomes of an asset whose work ran out of attempts: it stays `processing`, visibly blocked, "
        "or the periodic check makes it `errored`.",
    )
    reconcile_seconds: float = Field(
        default=60, ge=1, le=86_400, description="How often what no job would find is looked for and mended."
    )
    default_ladder: str = Field(default="default", min_length=1, description="Ladder where none is named.")
    tenant: str = Field(
        default="default",
        pattern=r"^[a-z0-9][a-z0-9_-]{0,62}$",
        description="Tenant of what is submitted here; outputs are reused only within a tenant.",
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(default="info", description="Least level logged.")
    log_format: Literal["text", "json"] = Field(
        default="text", description="`text` for people, `json` for one JSON object a line. Both to standard error."
    )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: Source,
        env_settings: Source,
        dotenv_settings: Source,
        file_secret_settings: Source,
    ) -> tuple[Source, ...]:
        """Only keywords count: `load_settings` brings environment and file together, with better messages."""
        return (init_settings,)

    @model_validator(mode="after")
    def _pairs(self) -> Settings:
        if (self.s3_access_key_id is None) != (self.s3_secret_access_key is None):
            raise ValueError("s3_access_key_id and s3_secret_access_key go together; only one of them is set")
        return self

    @property
    def storage_location(self) -> str:
        """`storage_url`, or the folder that stands in for it."""
        return self.storage_url or str(self.home / "storage")

    @property
    def scratch(self) -> Path:
        """`scratch_dir`, or the folder that stands in for it."""
        return self.scratch_dir or self.home / "scratch"


def load_settings(environ: Mapping[str, str] = os.environ) -> Settings:
    """The settings of this process.

    Args:
        environ: the environment. `VODPRESS_CONFIG` names the TOML file; without it, `vodpress.toml` in the home is
            read where there is one.

    Raises:
        InvalidRequest: code `invalid_settings`, with every fault: an unknown name with the nearest real one, a value
            out of range, a file that cannot be read.
    """
    named = [name for name in environ if name.startswith(PREFIX) and environ[name]]
    fields = Settings.model_fields
    known = [CONFIG, *(PREFIX + field.upper() for field in fields)]
    unknown = [name for name in sorted(named) if name not in known and not name.startswith(_OF_THE_TESTS)]
    faults = [_unknown(name, known) for name in unknown]
    file = _config_file(environ)
    from_file = _read(file) if file else {}
    faults += [f"{file}: {_unknown(key, fields)}" for key in from_file if key not in fields]
    if faults:
        raise InvalidRequest("invalid_settings", "; ".join(faults))
    from_environ = _from_environ(environ)
    try:
        return Settings(**{**from_file, **from_environ})
    except ValidationError as error:
        raise InvalidRequest("invalid_settings", _explain(error, from_environ, file)) from None  # it holds the values


def _from_environ(environ: Mapping[str, str]) -> dict[str, Any]:
    source = EnvSettingsSource(Settings)
    source.env_vars = {name.lower(): value for name, value in environ.items() if name.startswith(PREFIX) and value}
    return source()


def _config_file(environ: Mapping[str, str]) -> Path | None:
    if environ.get(CONFIG):
        return _folder(Path(environ[CONFIG]))
    home = environ.get(f"{PREFIX}HOME")
    file = (_folder(Path(home)) if home else Settings().home) / CONFIG_NAME
    return file if file.exists() else None


def _read(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidRequest("invalid_settings", f"{file}: {error.strerror}.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidRequest("invalid_settings", f"{file}: no valid TOML: {error}.") from error


def _unknown(name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    hint = f"did you mean '{near[0]}'?" if near else "see docs/reference/settings.md"
    return f"unknown setting '{name}'; {hint}"


def _explain(error: ValidationError, from_environ: Mapping[str, Any], file: Path | None) -> str:
    faults = []
    for entry in error.errors(include_input=False, include_url=False, include_context=False):
        message = entry["msg"].removeprefix("Value error, ")
        field = str(entry["loc"][0]) if entry["loc"] else ""
        place = PREFIX + field.upper() if field in from_environ else f"{file}: {field}"
        faults.append(f"{place}: {message[0].lower()}{message[1:]}" if field else message)
    return "; ".join(faults)
