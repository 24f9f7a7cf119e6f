"""Every design of the catalogue keeps the contract, in every mode."""

import pytest

from addnorm.arrangements import CATALOGUE
from addnorm.contract import CHECKS
from addnorm.models.build import MODES


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", CATALOGUE)
@pytest.mark.parametrize("check", CHECKS)
def test_contract(check, name, mode):
    CHECKS[check](CATALOGUE[name], mode)
