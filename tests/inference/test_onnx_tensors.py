"""Reading the tensors of an ONNX file."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from retentive.inference.loading import MODELS
from retentive.inference.onnx_tensors import read_tensors


@pytest.mark.parametrize("name", ["memory-small", "memory-judge"])
def test_every_tensor_of_our_models_is_read_as_the_package_onnx_reads_it(name):
    path = MODELS / name / "model.onnx"
    expected = {one.name: numpy_helper.to_array(one) for one in onnx.load(path).graph.initializer}

    found = read_tensors(path)

    assert found.keys() == expected.keys()
    assert all(
        found[name].dtype == array.dtype and np.array_equal(found[name], array) for name, array in expected.items()
    )


def test_a_type_that_no_model_here_has_is_named(tmp_path):
    tensor = numpy_helper.from_array(np.array([1.5], np.float64), "odd")
    output = helper.make_tensor_value_info("odd", TensorProto.DOUBLE, [1])
    model = helper.make_model(helper.make_graph([], "graph", [], [output], [tensor]))
    (tmp_path / "model.onnx").write_bytes(model.SerializeToString())

    with pytest.raises(ValueError, match="tensor odd has type 11"):
        read_tensors(tmp_path / "model.onnx")


@pytest.mark.parametrize("size", [1, 50, 5_000, 1_000_000])
def test_a_file_that_was_cut_off_is_refused(tmp_path, size):
    whole = (MODELS / "memory-small" / "model.onnx").read_bytes()
    (tmp_path / "model.onnx").write_bytes(whole[:size])

    with pytest.raises(ValueError, match="ends inside a field"):
        read_tensors(tmp_path / "model.onnx")
