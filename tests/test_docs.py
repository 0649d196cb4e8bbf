"""The pages of docs/, without Sphinx: public operators have a page with examples, and the code of all pages runs."""

from __future__ import annotations

import doctest
import functools
import re
import shlex
import sys
from pathlib import Path

import pytest

import retrograd
from docs_extensions import DOCS, extension
from retrograd.engine.operator import OPERATORS
from retrograd.torch_api.missing import pytorch_names
from shown_commands import RETROGRAD, blocks, check, commands, last_of_each_chain, needs_mpi, run

pages = extension("pages")
code_blocks, operator_pages, results = pages.code_blocks, pages.operator_pages, pages.results
FAMILIES = operator_pages.families()
WRITTEN = [path.relative_to(DOCS).as_posix() for path in pages.written()]
LONG = "tutorials/image_classifier.md", "tutorials/time_series.md"  # they train networks; "make docs" runs them, too
WHY_DW = "understanding/why_dw.md"


@pytest.mark.parametrize("page", FAMILIES)
def test_a_page_has_an_example_and_it_runs(page: str) -> None:
    path = operator_pages.example(page)
    assert path.exists(), f"write a session that shows the operators of {page} into docs/examples/{path.name}"
    text = pages.family_page(page)
    examples = [doctest.DocTestParser().get_examples(each) for each in (path.read_text(encoding="utf-8"), text)]
    assert [each.source for each in examples[0]] == [each.source for each in examples[1]] != []
    faults = code_blocks.run_page(text, f"reference/operators/{page}")
    assert not faults, "\n".join(faults)


def test_no_example_is_without_its_page() -> None:
    assert {path.name for path in (DOCS / "examples").iterdir()} == {f"{page}.pycon" for page in FAMILIES}


@pytest.mark.parametrize(
    "page", [pytest.param(page, marks=pytest.mark.nightly if page in LONG else ()) for page in WRITTEN]
)
def test_a_written_page_runs(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A figure that its program writes, and that docs/static has too, shows the same curves there."""
    monkeypatch.chdir(tmp_path)
    text = (DOCS / page).read_text(encoding="utf-8")
    faults = code_blocks.run_blocks(text, page, [])
    assert not faults, "\n".join(faults)
    for written in tmp_path.glob("*.svg"):
        shown = DOCS / "static" / written.name
        if f"](../static/{written.name})" in text:
            assert len(curves(written)) == len(curves(shown)) > 0
            for new, old in zip(curves(written), curves(shown), strict=True):
                far = sum(
                    abs(a - b) > 3 for a, b in zip(new, old, strict=True)
                )  # training depends on the CPU's rounding
                assert far <= len(old) / 10, f"{shown} is an old figure: copy {written} there"


def curves(figure: Path) -> list[list[float]]:
    """Return the coordinates of each line that Matplotlib drew into the axes of an SVG file."""
    lines = re.findall(r'<path d="([^"]+)" clip-path=\S+ style="fill: none', figure.read_text(encoding="utf-8"))
    return [[float(number) for number in re.findall(r"-?\d+\.?\d*", line)] for line in lines]


SHOWN = {page: commands((DOCS / page).read_text(encoding="utf-8")) for page in WRITTEN}


@pytest.mark.parametrize(
    ("page", "command"), [(page, command) for page in WRITTEN for command in last_of_each_chain(SHOWN[page])]
)
def test_a_command_runs(page: str, command: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    if needs_mpi(command):
        request.getfixturevalue("mpi")
    check(command, SHOWN[page], tmp_path)


@pytest.mark.usefixtures("mpi")
def test_several_processes_print_the_same(tmp_path: Path) -> None:
    """The program of distributed.md prints the same digits in one process and, by its command, in several."""
    page = (DOCS / "how_to/distributed.md").read_text(encoding="utf-8")
    (command,) = (shlex.split(line, comments=True) for line in commands(page) if line.startswith("retrograd launch"))
    (program,) = (text for kind, text in blocks(page) if kind == "python")
    (tmp_path / command[-1]).write_text(program, encoding="utf-8")
    alone = run([sys.executable, command[-1]], tmp_path)
    assert re.fullmatch(r"loss \d\.\d{8,}, a weight -?\d\.\d{8,}\S*\n", alone), alone
    assert run([*RETROGRAD, *command[1:]], tmp_path) == alone


@pytest.mark.parametrize("page", WRITTEN)
def test_what_a_written_page_includes_exists(page: str) -> None:
    text = (DOCS / page).read_text(encoding="utf-8")
    for file, name in re.findall(r"literalinclude\} (\S+)\n:pyobject: ([\w.]+)", text):
        source = ((DOCS / page).parent / file).read_text(encoding="utf-8")
        holder, _, method = name.rpartition(".")
        _, found, body = source.partition(f"\nclass {holder}") if holder else ("", "\n", source)
        assert found and re.search(rf"^{'    ' if holder else ''}(class|def) {method}\(", body, re.MULTILINE)


FOLDERS = "src", "tests", "benchmarks", "examples", "docs"
FILES = {
    path.relative_to(DOCS.parent).as_posix()
    for path in (*DOCS.parent.glob("*.md"), *(p for folder in FOLDERS for p in (DOCS.parent / folder).rglob("*")))
    if path.suffix in (".py", ".md", ".json", ".svg") and "__pycache__" not in path.parts
}


def missing_files(text: str) -> list[str]:
    """The files and folders, quoted in a page by the end of their path, that the repository does not have."""
    quoted = {name.partition("::")[0].partition(":")[0].rstrip("/") for name in re.findall(r"`([^`\s]+)`", text)}
    named = [name for name in quoted if re.fullmatch(r"[A-Za-z]\w*(/\w+)*(/\w+|\.py|\.md)", name)]
    return sorted(name for name in named if not any(f"/{name}/" in f"/{file}/" for file in FILES))


@pytest.mark.parametrize(
    "page", ["../CONTRIBUTING.md", *[page for page in WRITTEN if page.startswith("contributing/")]]
)
def test_the_files_that_contributors_are_sent_to_exist(page: str) -> None:
    assert missing_files((DOCS / page).read_text(encoding="utf-8")) == []


def test_a_missing_file_is_found() -> None:
    text = "Each has a case in `tests/onnx`, or in `tests/onnx_models/exported.py`; `ops/gone.py:f` and `kernels/`."
    assert missing_files(text) == ["ops/gone.py", "tests/onnx"]


NEEDS = {
    "images": r"from PIL|ImageFolder\(|retrograd (sample|train) photos|retrograd predict .*\.png",
    "onnx": r"import onnx|from onnx|rg\.onnx\.|retrograd\.onnx|retrograd vectors|\.onnx\b",
    "safetensors": r"safetensors",
    "sklearn": r"sklearn",
    "tensorboard": r"tensorboard",
    "train": r"matplotlib|retrograd study|^\$ retrograd train",
}


@pytest.mark.parametrize("page", ["../README.md", *WRITTEN])
def test_an_extra_stands_beside_the_first_block_that_needs_it(page: str) -> None:
    """Code that fails after a plain installation says what to install, in the code or above it."""
    text = (DOCS / page).read_text(encoding="utf-8")
    for extra, pattern in NEEDS.items():
        for block in re.finditer(r"^```(pycon|python|py|console)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
            if re.search(pattern, block[2], re.MULTILINE) and "--help" not in block[2]:
                above = text[: block.end()]
                named = re.search(rf"pip install '?(retrograd|\.)\[[a-z,]*\b{extra}\b", " ".join(above.split()))
                assert named, f"{page}: say pip install 'retrograd[{extra}]' above {block[2][:200]}"
                break


@pytest.mark.parametrize("page", WRITTEN)
def test_links_of_a_written_page_lead_to_files(page: str) -> None:
    """Links work in the repository, without a build, except those to operator pages, which a build creates."""
    links = re.findall(r"\]\((?!https?:)([^)#\s]+)(?:#[^)]*)?\)", (DOCS / page).read_text(encoding="utf-8"))
    assert all(((DOCS / page).parent / link).is_file() for link in links if "operators/" not in link)


@pytest.mark.parametrize(
    ("name", "page"),
    [
        ("dw", WHY_DW),
        ("im2col", "understanding/convolution_gradients.md"),
        ("col2im", "understanding/convolution_gradients.md"),
        ("unpack_patch2col", "how_to/from_mxnet_singa_numpy_ml.md"),
        ("AddTo", "how_to/from_mxnet_singa_numpy_ml.md"),
        ("Conv2dShiftFunction", "how_to/from_mxnet_singa_numpy_ml.md"),
    ],
)
def test_names_of_other_libraries_are_in_a_heading(name: str, page: str) -> None:
    """The search of the built pages lists hits in headings first."""
    headings = re.findall(r"^#+ (.+)$", (DOCS / page).read_text(encoding="utf-8"), re.MULTILINE)
    assert any(re.search(rf"\b{name}\b", heading) for heading in headings)


def test_the_search_for_dw_finds_its_page_first() -> None:
    """The main index entries come before headings: one for the name and one for the line of the question."""
    text = (DOCS / WHY_DW).read_text(encoding="utf-8")
    entries = re.findall(r"^```\{index\} ! (.+)\n```$", text, re.MULTILINE)
    assert entries == ["dw", "single: dw += Mult(grad_b, col_data.T())"]


def test_the_names_in_the_tables_of_other_libraries_exist() -> None:
    text = (DOCS / "how_to/from_mxnet_singa_numpy_ml.md").read_text(encoding="utf-8")
    names = set(re.findall(r"`((?:rg|nn|F|interop|lowbit)(?:\.[A-Za-z_]\w*)+)", text))
    packages = {"rg": retrograd, "nn": retrograd.nn, "F": retrograd.nn.functional}
    packages |= {"interop": retrograd.interop, "lowbit": retrograd.lowbit}
    assert len(names) > 50
    for name in names:
        package, *parts = name.split(".")
        functools.reduce(getattr, parts, packages[package])  # raises AttributeError for a missing name


@pytest.mark.parametrize(
    "page", sorted({page for page in WRITTEN if page.startswith("understanding/")} - {"understanding/index.md", WHY_DW})
)
def test_a_chapter_ends_with_exercises_whose_answers_run(page: str) -> None:
    """Each answer has a session that shows its output, and test_a_written_page_runs runs it with the page."""
    exercises = (DOCS / page).read_text(encoding="utf-8").partition("\n## Exercises\n")[2]
    assert "\n## " not in exercises
    _, *parts = re.split(r"^\*\*(\d)\.\*\* ", exercises, flags=re.MULTILINE)
    assert parts[0::2] == list("1234")[: len(parts) // 2] and 2 <= len(parts) // 2 <= 4
    for part in parts[1::2]:
        question, answer = part.split("\n<details>\n<summary>Answer</summary>\n\n")
        assert "```" not in question and answer.rstrip().endswith("\n\n</details>")
        sessions = [code for kind, code in blocks(answer) if kind == "pycon"]
        examples = [example for code in sessions for example in doctest.DocTestParser().get_examples(code)]
        assert any(example.want for example in examples)


def test_a_wrong_answer_of_an_exercise_is_a_fault() -> None:
    page = "engine_from_scratch.md"
    text = (DOCS / "understanding" / page).read_text(encoding="utf-8")
    assert text.count("\n[0. 4. 6.]\n") == 1
    assert "Expected:\n    [0. 4. 5.]" in "".join(code_blocks.run_page(text.replace("[0. 4. 6.]", "[0. 4. 5.]"), page))


def test_the_answer_about_dw_is_short() -> None:
    """It has at most 300 words besides its code, and the README links to it before its first section."""
    prose = re.sub(r"^```.*?^```$", "", (DOCS / WHY_DW).read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    assert 100 < len(prose.split()) <= 300
    first_screen = (DOCS.parent / "README.md").read_text(encoding="utf-8").partition("\n## ")[0]
    assert f"](docs/{WHY_DW})" in first_screen


def test_quoted_tables_are_those_of_the_last_benchmark() -> None:
    """Every page that quotes results refers to existing groups of a benchmark suite, and gets their tables."""
    tables = results.tables()
    suites = "".join(path.read_text(encoding="utf-8") for path in (DOCS.parent / "benchmarks/suites").glob("*.py"))
    seen: set[str] = set()
    for page in WRITTEN:
        text = (DOCS / page).read_text(encoding="utf-8")
        groups = set(re.findall(r"^<!-- results: (.+) -->$", text, re.MULTILINE))
        seen |= groups
        whole = results.quoted(text)
        assert "\n<!-- results" not in whole and all(f'"{group}"' in suites for group in groups)
        for group in groups & set(tables):
            assert tables[group].count("\n") > 1 and tables[group] in whole
    assert seen >= set(re.findall(r'"((?:recurrent|[^"]* recurrent) \w+)"', suites)), "quote them in recurrent_speed.md"


def test_quoted_rates_are_those_of_the_last_benchmark() -> None:
    _, measured, _ = results.report.read(DOCS.parent / "benchmarks")
    rows = {(row.group, row.name, row.threads): row.ours for row in measured if not row.level}
    two, one = (
        rows["distributed throughput", f"LeNet, 256 samples per process: {processes}, the same bits", 1]
        for processes in ("2 processes", "1 process with the batch of 2")
    )
    steps = [1e3 * rows["networks: training", "LeNet, batch 64", threads] for threads in (1, 2)]
    text = " ".join((DOCS / "how_to/distributed.md").read_text(encoding="utf-8").split())
    assert f"with {two:,.0f} samples/s, and one process of one thread with {one:,.0f}, to the same bits" in text
    assert f"takes {steps[0]:.1f} ms with one thread and {steps[1]:.1f} ms with two" in text


def test_the_page_of_benchmarks_has_every_row() -> None:
    text = results.quoted((DOCS / "contributing/benchmarks.md").read_text(encoding="utf-8"))
    _, measured, _ = results.report.read(DOCS.parent / "benchmarks")
    rows = [result for result in measured if not result.level]
    assert len(re.findall(r"^\| (?!row \|)", text, re.MULTILINE)) == len(rows) > 1000
    assert all(f"\n## {group}\n" in text for group in {result.group for result in rows})


def test_a_block_behind_an_included_one_runs() -> None:
    text = "```{literalinclude} file.py\n:pyobject: f\n```\n\n```pycon\n>>> 1 + 1\n3\n```\n"
    assert "Expected:\n    3" in "".join(code_blocks.run_page(text, "page"))


def test_a_wrong_output_and_an_error_are_faults() -> None:
    assert code_blocks.run_page("```pycon\n>>> 1 + 1\n2\n```\n", "page") == []
    assert "Expected:\n    3" in "".join(code_blocks.run_page("```pycon\n>>> 1 + 1\n3\n```\n", "page"))
    (fault,) = code_blocks.run_page("```python\nx = 1\n```\n\n```python\nx / 0\n```\n", "page")
    assert fault == "page, block 2: ZeroDivisionError: division by zero"


def test_a_build_shows_what_it_measured() -> None:
    page = "```pycon\n>>> x = 2.5\n>>> print(f'{x} times')  # doctest: +MEASURED\n1.7 times\n```\n"
    assert code_blocks.measured_page(page, "page") == (page.replace("1.7", "2.5"), [])
    assert "Expected:\n    1.7 times" in "".join(code_blocks.run_page(page.replace("x} times", "x} seconds"), "page"))


def test_a_console_block_runs_commands_and_compares_their_output() -> None:
    """Numbers are those of the build; a wrong output, a failure and an unknown program are faults."""
    page = "```console\n$ python -c \"print('found', 12, 'files')\"\nfound 3 files\n```\n"
    assert code_blocks.measured_page(page, "page") == (page.replace("found 3", "found 12"), [])
    assert code_blocks.measured_page(page.replace("3 files", "..."), "page") == (
        page.replace("found 3", "found 12"),
        [],
    )
    (fault,) = code_blocks.run_page(page.replace("3 files", "3 folders"), "page")
    assert "printed\nfound 12 files\ninstead of\nfound 3 folders\n" in fault
    (fault,) = code_blocks.run_page(page.replace("print", "prind"), "page")
    assert "ended with 1" in fault and "NameError" in fault
    program = "```python\n# count.py\nprint('found', 2 + 1, 'files')\n```\n"
    assert code_blocks.run_page(program + page.replace("-c \"print('found', 12, 'files')\"", "count.py"), "page") == []
    (fault,) = code_blocks.run_page("```console\n$ rm photos\n```\n", "page")
    assert "'rm' is not one of the commands that a page can run: retrograd, python" in fault


@pytest.mark.parametrize("page", FAMILIES)
def test_the_source_of_forward_and_backward_is_included(page: str) -> None:
    shown: set[object] = set()
    found = [each for operator in FAMILIES[page].values() for each in operator_pages.sources(operator, shown)]
    if page == "loss_classification":
        assert {name for _, name in found} >= {"CrossEntropy", "CrossEntropyGrad", "NegativeLogLikelihood"}
    for file, name in found:
        source = (DOCS.parent / "src" / file).read_text(encoding="utf-8")
        assert re.search(rf"^(class|def) {name}\(", source, re.MULTILINE)


@pytest.mark.parametrize("page", [page for page in WRITTEN if re.match(r"(tutorials|how_to)/(?!index)", page)])
def test_a_tutorial_or_how_to_says_what_for_and_leads_on(page: str) -> None:
    text = (DOCS / page).read_text(encoding="utf-8")
    kind = "this tutorial" if page.startswith("tutorials") else "reading this page"
    assert re.match(rf"# [^\n]+\n\nAfter {kind} you can ", text), "begin with what the reader can do afterwards"
    assert re.search(r"\]\([^)]+\.md", text), "link to another page"


def test_every_page_is_listed_in_the_index_of_its_part() -> None:
    index = (DOCS / "index.md").read_text(encoding="utf-8")
    assert {page.partition("/")[0] for page in WRITTEN} == {"index.md", *pages.PARTS}
    assert all(f"\n{part}/index\n" in index for part in pages.PARTS)
    for part in pages.PARTS:
        index = (DOCS / part / "index.md").read_text(encoding="utf-8")
        names = {page.split("/")[1].removesuffix(".md") for page in WRITTEN if page.startswith(f"{part}/")}
        missing = [name for name in names - {"index"} if f"\n{name}\n" not in index]
        assert not missing, f"list {missing} in docs/{part}/index.md"
    assert "\noperators/*\n" in (DOCS / "reference/operators.md").read_text(encoding="utf-8")


def test_the_names_of_pytorch_are_a_table() -> None:
    names = pytorch_names()
    lines = [f"{namespace}.{name}" for namespace, some in names.items() for name in some]
    assert len(set(lines)) == len(lines) > 1000
    assert {"torch", "torch.Tensor", "torch.nn", "torch.nn.functional", "torch.optim"} <= set(names)
    text = pages.pytorch_names.coverage()
    for namespace, some in names.items():
        assert re.search(rf"^## {re.escape(namespace)}: \d+ of {len(some)}$", text, re.MULTILINE)
    there, _, missing = text.partition("## torch.nn.functional: ")[2].partition("Not there: ")
    assert "`ctc_loss`" in there and "`ctc_loss`" not in missing.partition("##")[0]


def test_every_operator_with_a_backward_has_a_line() -> None:
    """The line contains a formula of the gradient, not just a name."""
    rows = re.findall(r"^\| `(\w+)` \| (\w+), \S+:\d+ \| (.+) \|$", pages.gradient_table.text(), re.MULTILINE)
    listed = {(name, function) for name, function, _ in rows}
    for operator in OPERATORS:
        if operator.name.isidentifier() and not operator.name.startswith("_"):
            assert {(operator.name, function.__name__) for function in operator.functions} <= listed, operator
    lines = {(name, function): line for name, function, line in rows}
    assert lines["softmax", "Softmax"] == "x: `y * (g - sum(g * y))`"
    assert lines["mul", "Mul"] == "x: `g y`; y: `g x`"
    assert lines["matmul", "MatMul"] == "x: g yT; y: xT g; each summed over the axes that were broadcast"
    assert lines["cumsum", "CumSum"] == "x: `CumSum(g, axis, not reverse)`"
    assert all(not re.fullmatch(r"(\w+: `?\w{2,}`?(; )?)+", line) for _, _, line in rows)
